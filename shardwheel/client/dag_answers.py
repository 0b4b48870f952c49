"""What the API answers about DAGs and their runs, as frozen values."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from shardwheel.client.answers import Answer

RUN_OVER = frozenset({"succeeded", "failed", "partial", "cancelled"})


class DagTask(Answer, frozen=True, kw_only=True):
    """A task as posted. Its `id` is a job's; what was not posted is None."""

    id: str
    key: str
    task: str
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    fan_out: bool = False
    priority: str | None = None
    pool: str | None = None
    timeout_s: float | None = None
    max_retries: int | None = None
    backoff: dict[str, Any] | None = None
    not_after_s: float | None = None


class Dag(Answer, frozen=True, kw_only=True):
    """A DAG as it stands. `tasks` are there when it was read singly."""

    id: str
    name: str
    state: str
    version: int
    policy: str
    sla_s: float | None = None
    next_at: datetime | None = None
    created_at: datetime
    partition: int
    task_count: int
    tags: tuple[str, ...] = ()
    priority: str
    pool: str
    max_retries: int
    backoff: dict[str, Any] = msgspec.field(default_factory=dict)
    misfire: str
    misfire_grace_s: float
    catchup_window: str
    overlap: str
    not_after_s: float | None = None
    cron: str | None = None
    every: str | float | None = None
    run_at: datetime | None = None
    time_zone: str | None = None
    dst_gap: str | None = None
    dst_fold: str | None = None
    exclude: tuple[str, ...] | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    jitter_s: str | float | None = None
    tasks: tuple[DagTask, ...] = ()


class RunTask(Answer, frozen=True, kw_only=True):
    """What became of a task in a run."""

    id: str
    key: str
    task: str
    depends_on: tuple[str, ...] = ()
    state: str
    reason: str | None = None
    execution_id: str | None = None
    attempt: int | None = None
    failures: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: int | None = None
    output: Any = None
    output_left_out: bool = False
    fan_out: dict[str, int | None] | None = None


class DagRun(Answer, frozen=True, kw_only=True):
    """A run of a DAG. `params` (what its trigger gave), `dag` (its name), `policy` and `tasks` are there when
    it was read singly."""

    id: str
    dag_id: str
    version: int | None = None
    state: str
    reason: str | None = None
    origin: str
    scheduled_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    sla_at: datetime | None = None
    sla_met: bool | None = None
    unfinished: int | None = None
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    rounds: int = 0
    params: dict[str, Any] | None = None
    dag: str | None = None
    policy: str | None = None
    tasks: tuple[RunTask, ...] = ()

    @property
    def is_over(self) -> bool:
        """Nothing more becomes of it, unless somebody lets it go on."""
        return self.state in RUN_OVER

    def task(self, key: str) -> RunTask:
        """What became of this one."""
        return next(task for task in self.tasks if task.key == key)


class DagTriggered(Answer, frozen=True, kw_only=True):
    """`id` is the run's."""

    id: str
    dag_id: str
