"""What an execution is: its states, where it came from, and what the claim and the settling hand over."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class ExecutionState(StrEnum):
    QUEUED = "queued"
    HELD = "held"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    FORCE_COMPLETED = "force_completed"


WAITING_STATES = frozenset({ExecutionState.QUEUED, ExecutionState.RETRY_WAIT})
TERMINAL_STATES = frozenset(
    {
        ExecutionState.SUCCEEDED,
        ExecutionState.DEAD,
        ExecutionState.CANCELLED,
        ExecutionState.SKIPPED,
        ExecutionState.FORCE_COMPLETED,
    }
)


class Origin(StrEnum):
    SCHEDULE = "schedule"
    SETTLED = "settled"
    TRIGGER = "trigger"
    BACKFILL = "backfill"
    DAG = "dag"
    REDRIVE = "redrive"


class Claimed(NamedTuple):
    """An execution that this worker may run now. `attempt` is its fencing token."""

    execution_id: bytes
    job_id: bytes
    partition: int
    tenant_id: str
    task: str
    params: bytes
    scheduled_ms: int
    due_ms: int
    attempt: int
    failures: int
    timeout_ms: int
    claim_token: bytes


class ClaimReply(NamedTuple):
    """What became of a batch: what may run, what was put on record otherwise, by state and reason."""

    claimed: list[Claimed]
    recorded: dict[tuple[str, str], int]
    duplicates: int


class Settled(NamedTuple):
    """What became of a batch of results: how many by state, and how many were of no current attempt."""

    by_state: dict[str, int]
    stale: int
