"""The rows of what holds executions, in memory: task types with their slots, budgets, breakers and tallies,
the slots of jobs that must not overlap, and the workers. Columns that no decision reads are left out."""

from __future__ import annotations

from typing import NamedTuple

from shardwheel.limits import Tally, TaskName

TASK_TYPES = "task_types"
TASK_SLOTS = "task_slots"
TASK_BUDGETS = "task_budgets"
TASK_BREAKERS = "task_breakers"
TASK_TALLIES = "task_tallies"
OVERLAP_SLOTS = "overlap_slots"
WORKERS = "workers"
DELETED_HELD = "deleted_held"
_OF_TASKS = (TASK_TYPES, TASK_SLOTS, TASK_BUDGETS, TASK_BREAKERS, TASK_TALLIES)
HOLD_TABLES = (*_OF_TASKS, OVERLAP_SLOTS, WORKERS, DELETED_HELD)

# The slot of the one run that tries whether a task's dependency is well again.
PROBE = 0


class LimitedType(NamedTuple):
    """A row of task_types."""

    name: TaskName
    paused: bool = False
    max_running: int | None = None
    rate_per_s: float | None = None
    burst: int | None = None
    breaker: bool = True

    @property
    def is_limited(self) -> bool:
        return self.max_running is not None or self.rate_per_s is not None


class TaskSlot(NamedTuple):
    """By (name, slot_no)."""

    name: TaskName
    slot_no: int
    execution_id: bytes | None = None


class Budget(NamedTuple):
    name: TaskName
    tokens: float
    refilled_ms: float

    def tokens_at(self, now_ms: float, limits: LimitedType) -> float:
        assert limits.rate_per_s is not None and limits.burst is not None
        gained = max(0.0, now_ms - self.refilled_ms) / 1000 * limits.rate_per_s
        return min(limits.burst, self.tokens + gained)


class Breaker(NamedTuple):
    """`open_until_ms` None: closed."""

    name: TaskName
    open_until_ms: float | None
    closed_ms: float | None = None


class TallySpan(NamedTuple):
    """By (name, since_ms, lane)."""

    name: TaskName
    since_ms: float
    tally: Tally


class OverlapSlot(NamedTuple):
    """By job_id."""

    job_id: bytes
    partition: int
    execution_id: bytes


class WorkerRow(NamedTuple):
    worker_id: str
    pool: str
    tasks: frozenset[str]
    seen_ms: float


class DeletedHeld(NamedTuple):
    """A deleted job of which more is to be ended."""

    job_id: bytes
    partition: int
