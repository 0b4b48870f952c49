"""What a job is, as the services hold it. Pure values; how one is posted and checked is in `posting`."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple


class JobState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    DELETED = "deleted"


class Priority(IntEnum):
    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


class Pool(StrEnum):
    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


class Misfire(StrEnum):
    """What becomes of missed times: run all, run the last and skip the others, or skip them all."""

    FIRE_ALL = "fire_all"
    FIRE_LAST = "fire_last"
    SKIP = "skip"


class JobEntry(NamedTuple):
    """A job as a shard needs it: its timing and what names its schedule's state. No task, no params.

    Read by the load and by the change feed; a job that is not active leaves the wheel. `anchor_ms`,
    `start_ms` and `last_ms` bound and anchor the shared schedule (None: no bound).
    """

    job_id: bytes
    partition: int
    active: bool
    version: int
    schedule: str
    anchor_ms: int
    start_ms: int | None
    last_ms: int | None
    jitter_ms: int
    misfire: str
    misfire_grace_ms: int
    catchup_window_ms: int
    pool: str
    priority: int
    schedule_no: int
    schedule_xid: int
    effective_from_ms: int


class WaitingExecution(NamedTuple):
    """An execution that waits to be published (`queued` or `retry_wait`), as a shard needs it."""

    execution_id: bytes
    job_id: bytes
    partition: int
    attempt: int
    due_ms: int
    scheduled_ms: int
    pool: str
    priority: int
    changed_xid: int


class Changes(NamedTuple):
    """What changed since a snapshot, and the snapshot to go on from. `horizon_xid` is its xmin: every
    change with a smaller xid is in here or was seen before."""

    jobs: list[JobEntry]
    waiting: list[WaitingExecution]
    snapshot: str
    horizon_xid: int
