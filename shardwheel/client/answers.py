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


class Shard(Answer, frozen=True, kw_only=True):
    """A shard that is alive."""

    id: str
    state: str
    zone: str = ""
    leader: bool = False
    partitions: int = 0
    standbys: int = 0
    address: str = ""
    version: str = ""
    started_at: datetime | None = None


class Partition(Answer, frozen=True, kw_only=True):
    """Who owns it, and how far it was fired."""

    id: str
    partition: int
    state: str
    owner: str | None = None
    standby: str | None = None
    planned: str | None = None
    pin: str | None = None
    jobs: int = 0
    fired_through: datetime | None = None
    behind_s: float | None = None
    claimed_through: datetime | None = None
    epoch: int = 0


class ShardCounts(Answer, frozen=True, kw_only=True):
    """How many of a shard's entries are due in each bucket."""

    id: str
    entries: int
    counts: tuple[int, ...]


class Wheel(Answer, frozen=True, kw_only=True):
    """Entries by bucket and shard. Not `complete`: some shard, see `missing`, did not answer."""

    items: tuple[ShardCounts, ...]
    from_: datetime = msgspec.field(name="from")
    to: datetime
    bucket_ms: int
    counts: tuple[int, ...]
    complete: bool
    missing: tuple[dict[str, str], ...] = ()


class SteeredShard(Answer, frozen=True, kw_only=True):
    """What a drain or its end leaves."""

    id: str
    state: str
    partitions: int
    drained: bool


class Rebalance(Answer, frozen=True, kw_only=True):
    """`partitions`: how many are to change their owner, as it stands."""

    asked: bool
    partitions: int


class Move(Answer, frozen=True, kw_only=True):
    """A partition on its way; `from_` is None when nobody owns it."""

    partition: int
    from_: str | None = msgspec.field(name="from", default=None)
    to: str
    jobs: int = 0


class Moves(Answer, frozen=True, kw_only=True):
    """Partitions with their jobs, and how long they should take all together."""

    partitions: int
    jobs: int
    expected_s: float
    moves: tuple[Move, ...] = ()


class RebalanceStatus(Moves, frozen=True, kw_only=True):
    """Where a rebalance stands, and what is on its way. `state`: off, ready, in_progress or stalled;
    `planned`: what one would move."""

    state: str
    reason: str = ""
    remedy: str = ""
    automatic: bool
    leader: str | None = None
    generation: int | None = None
    planned_because: str | None = None
    draining: str | None = None
    pins: int = 0
    planned: Moves


class Automatic(Answer, frozen=True, kw_only=True):
    """Whether partitions are levelled whenever a shard joins or leaves."""

    automatic: bool


class MovedPartition(Answer, frozen=True, kw_only=True):
    """`pin`: the shard that is to own it; `owner`: the one that does now."""

    id: str
    partition: int
    owner: str | None = None
    pin: str | None = None


class Pool(Answer, frozen=True, kw_only=True):
    """`lag`: how many fires no worker has taken yet; None while that is not known."""

    id: str
    lag: int | None = None


class AuditEntry(Answer, frozen=True, kw_only=True):
    """Who did what; `details` has what was before and what is after."""

    id: str
    at: datetime
    actor: str
    role: str
    action: str
    object_kind: str
    object_id: str
    details: dict[str, Any] = {}


class Alert(Answer, frozen=True, kw_only=True):
    """Something wrong with the cluster, from its opening to its end."""

    id: str
    rule: str
    subject: str
    state: str
    severity: str
    value: float
    sentence: str
    remedy: str
    runbook: str = ""
    facts: dict[str, Any] = {}
    opened_at: datetime
    last_seen_at: datetime
    notified_at: datetime | None = None
    resolved_at: datetime | None = None
    silenced_until: datetime | None = None
