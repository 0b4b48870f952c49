"""What is answered about DAGs and their runs, as the document describes it. The store makes the values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from shardwheel.api.bodies import Duration
from shardwheel.api.views import At, Cursor, Id, View


class DagRead(View):
    """A DAG as it stands, without its tasks. Of its timing, what was posted."""

    id: Id
    name: str
    state: Literal["active", "paused", "completed", "deleted"]
    version: Annotated[int, Meta(description="Grows with each edit; a run keeps the one it began with.")]
    policy: Literal["fail_fast", "continue", "retry"]
    sla_s: float | None
    next_at: Annotated[At | None, Meta(description="The next scheduled time; null while it is not active.")]
    tags: list[str]
    priority: str
    pool: str
    max_retries: int
    backoff: dict[str, Any]
    misfire: str
    misfire_grace_s: float
    catchup_window: str
    overlap: str
    not_after_s: float | None
    partition: int
    created_at: At
    task_count: int
    cron: str | UnsetType = UNSET
    every: Duration | UnsetType = UNSET
    run_at: At | UnsetType = UNSET
    time_zone: str | UnsetType = UNSET
    dst_gap: str | UnsetType = UNSET
    dst_fold: str | UnsetType = UNSET
    exclude: list[str] | UnsetType = UNSET
    start_at: At | UnsetType = UNSET
    end_at: At | UnsetType = UNSET
    max_runs: int | UnsetType = UNSET
    jitter_s: Duration | UnsetType = UNSET


class DagTaskRead(View):
    """A task as posted. Its `id` is a job's."""

    id: Id
    key: str
    task: str
    params: dict[str, Any]
    depends_on: list[str]
    fan_out: bool
    priority: str | UnsetType = UNSET
    pool: str | UnsetType = UNSET
    timeout_s: float | UnsetType = UNSET
    max_retries: int | UnsetType = UNSET
    backoff: dict[str, Any] | UnsetType = UNSET
    not_after_s: float | UnsetType | None = UNSET


class DagWithTasks(DagRead, kw_only=True):
    """A DAG as it stands, with its tasks in the order in which they were posted."""

    tasks: list[DagTaskRead]


class DagPage(View):
    items: list[DagRead]
    next_cursor: Cursor


class DagTriggered(View):
    """`id` and `run_id` are the same: the run's."""

    id: Id
    run_id: Id
    dag_id: Id


class RunRead(View):
    """A run of a DAG. One that has not begun has no version yet, and the state of its trigger."""

    id: Id
    dag_id: Id
    version: int | None
    state: Annotated[
        str, Meta(description="running, succeeded, failed, partial, cancelled; before that queued or held.")
    ]
    reason: str | None
    origin: str
    scheduled_at: At
    started_at: At | None
    ended_at: At | None
    sla_at: At | None
    sla_met: Annotated[bool | None, Meta(description="null: it is not over, or promises nothing.")]
    unfinished: int | None
    succeeded: int
    failed: int
    skipped: int
    rounds: Annotated[int, Meta(description="How often the policy `retry` let dead tasks run again.")]


class FanOut(View):
    """How many items a fan-out has, and how they stand; null until its parent is over."""

    items: int | None
    open: int | None
    failed: int | None
    skipped: int | None


class RunTask(View):
    id: Id
    key: str
    task: str
    depends_on: list[str]
    state: Annotated[
        str, Meta(description="pending, an execution's state, upstream_failed or upstream_skipped.")
    ]
    reason: str | None
    execution_id: Id | None
    attempt: int | None
    failures: int | None
    started_at: At | None
    ended_at: At | None
    duration_ms: int | None
    output: Any
    output_left_out: Annotated[
        bool, Meta(description="The run's outputs are over 1 MiB: read this one by its execution.")
    ]
    fan_out: FanOut | None


class RunWithTasks(RunRead):
    """A run, and what became of each task."""

    params: Annotated[dict[str, Any] | None, Meta(description="What its trigger gave.")]
    dag: Annotated[str, Meta(description="The DAG's name.")]
    policy: str
    tasks: list[RunTask]


class RunPage(View):
    items: list[RunRead]
    next_cursor: Cursor
