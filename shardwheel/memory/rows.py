"""The rows of the loop's tables in memory, and what PostgreSQL's triggers do when one is written.

Columns that no decision reads are left out. Times are milliseconds; those that PostgreSQL takes from its own
clock keep their fraction, as they do there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from shardwheel.execution import WAITING_STATES
from shardwheel.ids import text_of
from shardwheel.memory.dag_rows import DAG_TABLES, DAG_TASKS
from shardwheel.memory.hold_rows import HOLD_TABLES, OVERLAP_SLOTS, TASK_SLOTS, OverlapSlot
from shardwheel.memory.transaction import Transaction
from shardwheel.schedule import schedule_of
from shardwheel.store.job_row import JobRow

JOBS = "jobs"
EXECUTIONS = "executions"
ATTEMPTS = "attempts"
SKIP_RANGES = "skip_ranges"
WORK_ROWS = "work_rows"
DEAD_LETTERS = "dead_letters"
EXECUTION_LOGS = "execution_logs"
IDEMPOTENCY_KEYS = "idempotency_keys"
_OF_RUNS = (ATTEMPTS, SKIP_RANGES, WORK_ROWS, DEAD_LETTERS, EXECUTION_LOGS)
TABLES = (JOBS, EXECUTIONS, IDEMPOTENCY_KEYS, *_OF_RUNS, *HOLD_TABLES, *DAG_TABLES)

UNFINISHED = ("queued", "retry_wait", "held", "running")

_TIMING = ("schedule", "anchor_ms", "start_ms", "end_ms", "max_runs", "jitter_ms")


class StoredJob(NamedTuple):
    row: JobRow
    changed_xid: int


class Execution(NamedTuple):
    execution_id: bytes
    tenant_id: str
    partition: int
    job_id: bytes
    kind: int
    origin: str
    state: str
    scheduled_ms: int
    due_ms: float
    reason: str | None = None
    attempt: int = 1
    failures: int = 0
    crashes: int = 0
    schedule_no: int = 0
    claim_token: bytes | None = None
    worker: str | None = None
    lease_until_ms: float | None = None
    timeout_at_ms: float | None = None
    reported: tuple[str, int, int] | None = None
    asked_to_stop: bool = False
    request_id: bytes | None = None
    params: str | None = None
    started_ms: float | None = None
    changed_xid: int | None = None
    slotted: bool = False
    held_for: str | None = None
    checkpoint: bytes = b"null"
    progress: str = ""
    dag_run_id: bytes | None = None
    item_no: int | None = None
    output: bytes | None = None


class Attempt(NamedTuple):
    execution_id: bytes
    attempt: int
    outcome: str
    worker: str
    ended_ms: int


class LogRow(NamedTuple):
    execution_id: bytes
    attempt: int
    first_line: int
    tenant_id: str
    size: int
    lines: bytes


class IdempotencyKey(NamedTuple):
    """By (tenant, key)."""

    body_hash: bytes
    answer: str | None
    expires_ms: int


class SkipRange(NamedTuple):
    job_id: bytes
    first_ms: int
    last_ms: int
    times: int
    reason: str
    schedule_no: int


class Work(NamedTuple):
    work_id: int
    tenant_id: str
    partition: int
    job_id: bytes
    origin: str
    schedule: str
    schedule_no: int
    anchor_ms: int | None
    jitter_ms: int
    first_ms: int
    last_ms: int
    times: int
    requeue_skipped: bool = False
    request_id: bytes | None = None
    cursor_ms: int | None = None
    state: str = "open"

    @property
    def once(self) -> Hashable:
        """What the constraint `work_rows_once` compares."""
        return (self.job_id, self.origin, self.schedule_no, self.first_ms, self.last_ms, self.request_id)


def whole_now_ms(transaction: Transaction) -> int:
    return int(transaction.server.now_ms())


def put_execution(transaction: Transaction, row: Execution) -> None:
    """With its triggers: whatever waits afterwards is shown to the feed, what is held says for whom, and
    whoever stops running, or is over, gives back its slots."""
    old: Execution | None = transaction.get(EXECUTIONS, row.execution_id)
    row = row._replace(held_for=_held_for(transaction, row) if row.state == "held" else None)
    if row.state in WAITING_STATES:
        row = row._replace(changed_xid=transaction.xid)
    transaction.put(EXECUTIONS, row.execution_id, row)
    if old is not None and old.slotted and old.state != row.state:
        free_slots_of(transaction, old, row)


def _held_for(transaction: Transaction, row: Execution) -> str:
    if row.reason not in ("paused", "overlap"):
        return job_of(transaction, row).task
    return text_of(dag_of(transaction, row.job_id) or row.job_id)


def dag_of(transaction: Transaction, job_id: bytes) -> bytes | None:
    """The DAG that a job is a task of."""
    return next((task.dag_id for _, task in transaction.rows(DAG_TASKS) if task.task_id == job_id), None)


def free_slots_of(transaction: Transaction, old: Execution, new: Execution) -> None:
    """A task's slot when it stops running, its job's when it is over; the next one of that job gets it."""
    if old.state == "running":
        for key, slot in list(transaction.rows(TASK_SLOTS)):
            if slot.execution_id == new.execution_id:
                transaction.put(TASK_SLOTS, key, slot._replace(execution_id=None))
    slot = transaction.get(OVERLAP_SLOTS, new.job_id)
    if new.state not in UNFINISHED and slot is not None and slot.execution_id == new.execution_id:
        transaction.put(OVERLAP_SLOTS, new.job_id, None)
        hand_on_job_slot(transaction, new.job_id)


def hand_on_job_slot(transaction: Transaction, job_id: bytes) -> bool:
    """Give a job's free slot to the oldest of its executions that is held for it, and let that one go on."""
    waiting = sorted(
        row
        for _, row in transaction.rows(EXECUTIONS)
        if (row.state, row.reason, row.job_id) == ("held", "overlap", job_id)
        and is_free(transaction, EXECUTIONS, row.execution_id)
    )
    if not waiting:
        return False
    transaction.lock(OVERLAP_SLOTS, job_id)
    if transaction.get(OVERLAP_SLOTS, job_id) is not None:
        return False
    row = waiting[0]
    transaction.put(OVERLAP_SLOTS, job_id, OverlapSlot(job_id, row.partition, row.execution_id))
    put_execution(transaction, row._replace(state="queued", reason=None, slotted=True))
    return True


def insert_job(transaction: Transaction, row: JobRow) -> JobRow:
    """With the trigger `jobs_before_change`, as at an INSERT."""
    now_ms = whole_now_ms(transaction)
    is_once = schedule_of(row.schedule).kind == "once"
    starts_ms = min(now_ms, row.anchor_ms) if is_once and row.anchor_ms is not None else now_ms
    made = row._replace(
        version=1,
        created_ms=now_ms,
        schedule_no=_random_number(transaction),
        schedule_xid=transaction.xid,
        effective_from_ms=starts_ms,
    )
    transaction.put(JOBS, made.job_id, StoredJob(made, transaction.xid))
    return made


def update_job(transaction: Transaction, new: JobRow) -> JobRow:
    """With the trigger `jobs_before_change`, as at an UPDATE; the clock is read under the row's lock."""
    transaction.lock(JOBS, new.job_id)
    old: JobRow = transaction.get(JOBS, new.job_id).row
    new = new._replace(version=old.version + 1)
    if _is_rescheduled(old, new, transaction.xid):
        new = new._replace(
            schedule_no=_random_number(transaction),
            schedule_xid=transaction.xid,
            effective_from_ms=max(whole_now_ms(transaction), old.effective_from_ms),
        )
    transaction.put(JOBS, new.job_id, StoredJob(new, transaction.xid))
    return new


def _is_rescheduled(old: JobRow, new: JobRow, xid: int) -> bool:
    if any(getattr(old, name) != getattr(new, name) for name in _TIMING):
        return True
    if new.last_ms != old.last_ms and old.schedule_xid != xid:
        return True
    return new.state != old.state and (old.state, new.state) != ("active", "completed")


def _random_number(transaction: Transaction) -> int:
    return transaction.server.random.randrange(1, 2**63)


def locked_job(transaction: Transaction, job_id: bytes) -> JobRow | None:
    """FOR SHARE and FOR UPDATE alike: a twin that serialises more than PostgreSQL decides the same."""
    if transaction.get(JOBS, job_id) is None:
        return None
    transaction.lock(JOBS, job_id)
    row: JobRow = transaction.get(JOBS, job_id).row
    return row


def job_of(transaction: Transaction, row: Execution | Work) -> JobRow:
    found: JobRow = transaction.get(JOBS, row.job_id).row
    return found


def executions(transaction: Transaction, partitions: list[int], *states: str) -> Iterator[Execution]:
    """Those of these partitions in one of these states, in key order."""
    wanted, mine = frozenset(states), frozenset(partitions)
    found = [row for _, row in transaction.rows(EXECUTIONS) if row.state in wanted and row.partition in mine]
    return iter(sorted(found))


def is_free(transaction: Transaction, table: str, key: Any) -> bool:
    """What SKIP LOCKED asks."""
    return transaction.server.row_locks.get((table, key), transaction) is transaction
