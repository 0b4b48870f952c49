"""What the API answers, as frozen values: attributes with types, times as `datetime` in UTC.

What a newer API adds is passed over. Nothing is filled in that was not answered: a field that only some
answers have is None in the others.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

OVER = frozenset({"succeeded", "dead", "cancelled", "skipped", "force_completed"})
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the API answered."""


class Job(Answer, frozen=True, kw_only=True):
    """A job as it stands, with every default filled in."""

    id: str
    kind: str
    state: str
    next_at: datetime | None = None
    created_at: datetime
    version: int
    partition: int
    task: str
    name: str = ""
    params: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    pool: str = "short"
    priority: str = "normal"
    timeout_s: float = 60.0
    max_retries: int = 3
    backoff: dict[str, Any] = {}
    misfire: str = "fire_last"
    misfire_grace_s: float = 60.0
    catchup_window: str = "3600s"
    overlap: str = "allow"
    not_after_s: float | None = None
    callback_url: str | None = None
    jitter_s: float = 0.0
    parents: tuple[str, ...] = ()
    dag_id: str | None = None
    cron: str | None = None
    every: str | None = None
    run_at: datetime | None = None
    time_zone: str | None = None
    dst_gap: str | None = None
    dst_fold: str | None = None
    exclude: tuple[str, ...] | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None

    @property
    def execution_id(self) -> str | None:
        """The id of the one run of a job that runs once, known before it runs; None for any other job."""
        if self.run_at is None:
            return None
        from shardwheel.ids import fire_id, id_of, text_of

        run_at_ms = (self.run_at - _EPOCH) // timedelta(milliseconds=1)
        return text_of(fire_id(id_of(self.id), self.partition, run_at_ms))


class ResumedJob(Job, frozen=True, kw_only=True):
    """`backfilled`: how many times of the pause will run after all."""

    backfilled: int = 0


class Triggered(Answer, frozen=True, kw_only=True):
    execution_id: str
    job_id: str


class Backfilled(Answer, frozen=True, kw_only=True):
    """`count`: how many scheduled times the span holds."""

    job_id: str
    count: int


class Attempt(Answer, frozen=True, kw_only=True):
    """One attempt of an execution."""

    attempt: int
    outcome: str
    class_: str | None = msgspec.field(name="class", default=None)
    message: str | None = None
    traceback: str | None = None
    worker: str | None = None
    slot_ms: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


class Execution(Answer, frozen=True, kw_only=True):
    """One run of a job for one scheduled time. `attempts` are there when it was read singly."""

    id: str
    job_id: str
    task: str
    state: str
    reason: str | None = None
    origin: str
    dag_run_id: str | None = None
    scheduled_at: datetime
    due_at: datetime
    attempt: int
    failures: int
    crashes: int = 0
    worker: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: int | None = None
    cancel_requested_at: datetime | None = None
    progress: Any = None
    output: Any = None
    attempts: tuple[Attempt, ...] = ()
    callbacks: tuple[dict[str, Any], ...] = ()

    @property
    def is_over(self) -> bool:
        """Nothing more becomes of it."""
        return self.state in OVER

    @property
    def succeeded(self) -> bool:
        return self.state in ("succeeded", "force_completed")


class Explanation(Answer, frozen=True, kw_only=True):
    """Why something is as it is, and what to do about it."""

    id: str
    kind: str
    state: str
    reason: str | None = None
    sentence: str
    remedy: str | None = None
    facts: dict[str, Any] = {}


class LogLine(Answer, frozen=True, kw_only=True):
    """A line of `ctx.log`. Each attempt counts its own from 1."""

    attempt: int
    number: int
    at: datetime
    level: str
    text: str


class DeadLetter(Answer, frozen=True, kw_only=True):
    """What was given up. From `params` on: there when it was read singly."""

    id: str
    execution_id: str
    job_id: str
    dag_run_id: str | None = None
    task: str
    state: str
    reason: str
    class_: str | None = msgspec.field(name="class", default=None)
    message: str | None = None
    worker: str | None = None
    origin: str = ""
    scheduled_at: datetime | None = None
    attempt: int
    failures: int
    crashes: int = 0
    created_at: datetime
    redriven_as: str | None = None
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    params: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    attempts: tuple[Attempt, ...] = ()
    traceback: str | None = None
    checkpoint: Any = None
    progress: Any = None
    trace: str | None = None


class Redriven(Answer, frozen=True, kw_only=True):
    """The letter's id, and that of its new execution."""

    id: str
    execution_id: str


class Dealt(Answer, frozen=True, kw_only=True):
    """How many dead letters were dealt with, and how many not, by the reason."""

    done: int
    refused: dict[str, int]


class TaskType(Answer, frozen=True, kw_only=True):
    """What holds for all jobs of one task."""

    id: str
    task: str
    paused: bool
    max_running: int | None = None
    slots_taken: int | None = None
    rate: str | None = None
    breaker: str = "off"
    breaker_open_until: datetime | None = None
    held: int = 0
