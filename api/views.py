"""What is answered, as the document describes it. The values are made beside the rows; tests compare."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shardwheel.retry import Backoff

Id = Annotated[str, Meta(description="A UUID.")]
At = Annotated[str, Meta(description="ISO 8601 in UTC with milliseconds, such as 2026-11-20T09:00:00.000Z.")]
Cursor = Annotated[str | None, Meta(description="Give it as `cursor` for the next page; null: that was all.")]
Letter = dict[str, Any]


class View(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Something that is answered."""


class JobView(View):
    """A job as it stands, with every default filled in."""

    id: Id
    kind: Literal["job", "dag", "task"]
    state: Literal["active", "paused", "completed", "deleted"]
    next_at: Annotated[At | None, Meta(description="The next scheduled time; null while it is not active.")]
    created_at: At
    version: Annotated[int, Meta(description="Grows with each change.")]
    partition: int
    task: str
    name: str
    params: dict[str, Any]
    tags: list[str]
    pool: str
    priority: str
    timeout_s: float
    max_retries: int
    backoff: Backoff
    misfire: str
    misfire_grace_s: float
    catchup_window: str
    overlap: str
    not_after_s: float | None
    callback_url: str | None
    jitter_s: float
    parents: Annotated[list[Id], Meta(description="The jobs that it runs after, in each run of its root.")]
    dag_id: Annotated[
        Id | None,
        Meta(
            description="The DAG, or the job at the root, whose runs it is part of; its own: it has children."
        ),
    ]
    cron: str | None = None
    every: str | None = None
    run_at: At | None = None
    time_zone: str | None = None
    dst_gap: str | None = None
    dst_fold: str | None = None
    exclude: list[str] | None = None
    start_at: At | None = None
    end_at: At | None = None
    max_runs: int | None = None


class JobPage(View):
    items: list[JobView]
    next_cursor: Cursor


class JobsMade(View):
    """The jobs of a batch, in its order, all of them."""

    items: list[JobView]
    next_cursor: None = None


class ResumedView(JobView):
    backfilled: Annotated[int, Meta(description="How many times of the pause will run after all.")] = 0


class NextView(View):
    """The coming scheduled times. Jitter is not in them."""

    items: list[At]
    next_cursor: Cursor = None
    fires_at: Annotated[list[At], Meta(description="When each of them fires, jitter and all.")] = []


class TriggeredView(View):
    """`id` and `execution_id` are the same: the execution's."""

    id: Id
    execution_id: Id
    job_id: Id


class BackfilledView(View):
    """`id` and `job_id` are the same: the job's."""

    id: Id
    job_id: Id
    count: Annotated[int, Meta(description="How many scheduled times the span holds.")]


class AttemptView(View):
    id: Annotated[str, Meta(description="The attempt's number, as a text.")]
    attempt: int
    outcome: str
    class_: str | None = msgspec.field(name="class")
    message: str | None
    traceback: str | None
    worker: str | None
    slot_ms: int | None
    started_at: At | None
    ended_at: At | None


class ExecutionView(View):
    """One run of a job for one scheduled time."""

    id: Id
    job_id: Id
    task: str
    state: str
    reason: str | None
    origin: str
    dag_run_id: Annotated[
        Id | None, Meta(description="The run that it is a task of; its own id: its children's run.")
    ]
    scheduled_at: At
    due_at: At
    attempt: int
    failures: int
    crashes: int
    worker: str | None
    started_at: At | None
    ended_at: At | None
    duration_ms: int | None
    cancel_requested_at: At | None
    progress: Any
    output: Any


class ExecutionWithAttempts(ExecutionView):
    attempts: list[AttemptView]
    callbacks: Annotated[
        list[dict[str, Any]], Meta(description="Whom its end was or is to be told, and how that went.")
    ]


class ExecutionPage(View):
    items: list[ExecutionView]
    next_cursor: Cursor


class SkipView(View):
    """Scheduled times that did not run, both ends included."""

    from_: At = msgspec.field(name="from")
    to: At
    count: int
    reason: str


class FullJobView(JobView):
    """The last three are there if `full` was asked for."""

    next_times: list[At] | msgspec.UnsetType = msgspec.UNSET
    executions: list[ExecutionView] | msgspec.UnsetType = msgspec.UNSET
    skips: list[SkipView] | msgspec.UnsetType = msgspec.UNSET


class ExplanationView(View):
    """Why it is as it is."""

    id: Id
    kind: Literal["job", "execution"]
    state: str
    reason: str | None
    sentence: Annotated[str, Meta(description="For people.")]
    remedy: Annotated[str | None, Meta(description="What to do about it.")]
    facts: Annotated[dict[str, Any], Meta(description="What the answer rests on.")]


class LogLine(View):
    id: Annotated[str, Meta(description="`attempt` and `number` with a dot between them.")]
    attempt: int
    number: Annotated[int, Meta(description="Each attempt counts its lines from 1.")]
    at: At
    level: str
    text: str


class LogPage(View):
    items: list[LogLine]
    next_cursor: Cursor


class OutcomeView(View):
    outcome: Literal["cancelled", "already_running", "already_done"]


class LetterPage(View):
    items: list[Letter]
    next_cursor: Cursor


class RedrivenView(View):
    id: Id
    execution_id: Id


class DiscardedView(View):
    id: Id
    state: Literal["discarded"]


class DealtView(View):
    """What became of the letters that the filter means."""

    done: int
    refused: Annotated[dict[str, int], Meta(description="How many were not dealt with, by the reason.")]
    next_cursor: Annotated[str | None, Meta(description="With a `limit`: where to go on.")] = None
    count: Annotated[int | None, Meta(description="With `dry_run`: how many it would be.")] = None


class TaskView(View):
    """What holds for all jobs of one task."""

    id: str
    task: str
    paused: bool
    max_running: int | None
    slots_taken: int | None
    rate: str | None
    breaker: Literal["off", "closed", "open"]
    breaker_open_until: At | None
    held: Annotated[int, Meta(description="How many executions wait for it.")]


class TaskPage(View):
    items: list[TaskView]
    next_cursor: Cursor
