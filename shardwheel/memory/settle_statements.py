"""Statements that end attempts or put things right: settle, sweep, expand. Twins of the .sql files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from shardwheel.execution import FIRST_ENDING, WAITING_STATES
from shardwheel.memory import ownership
from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_put_off_statements import put_off
from shardwheel.memory.dag_rows import DAG_RUNS
from shardwheel.memory.hold_rows import TASK_TALLIES
from shardwheel.memory.rows import (
    ATTEMPTS,
    DEAD_LETTERS,
    EXECUTIONS,
    JOBS,
    UNFINISHED,
    WORK_ROWS,
    Attempt,
    Execution,
    Work,
    executions,
    is_free,
    job_of,
    locked_job,
    put_execution,
    update_job,
    whole_now_ms,
)
from shardwheel.memory.transaction import Transaction

_RECENTLY_MS = 120_000


def _attempts(transaction: Transaction, execution_id: bytes) -> Iterator[Attempt]:
    for attempt in range(1, 1_000):
        row = transaction.get(ATTEMPTS, (execution_id, attempt))
        if row is None and attempt > 1:
            return
        if row is not None:
            yield row


def _timeouts(transaction: Transaction, execution_id: bytes) -> int:
    return sum(row.outcome == "timed_out" for row in _attempts(transaction, execution_id))


def current(transaction: Transaction, execution_id: bytes, attempt: int, token: bytes) -> Execution | None:
    """The running row, locked, if this is its current attempt."""
    if transaction.get(EXECUTIONS, execution_id) is None:
        return None
    transaction.lock(EXECUTIONS, execution_id)
    row: Execution = transaction.get(EXECUTIONS, execution_id)
    return row if (row.state, row.attempt, row.claim_token) == ("running", attempt, token) else None


@statement("settle_lock")
def settle_lock(transaction: Transaction, given: Given) -> list[Any]:
    names = ("execution_ids", "attempts", "tokens")
    found = []
    for execution_id, attempt, token in sorted(zip(*(given[name] for name in names), strict=True)):
        row = current(transaction, execution_id, attempt, token)
        if row is None:
            continue
        job = job_of(transaction, row)
        since_ms = transaction.server.now_ms() - _RECENTLY_MS
        recent = [
            past.ended_ms
            for past in _attempts(transaction, execution_id)
            if past.outcome in ("failed", "timed_out") and past.ended_ms > since_ms
        ]
        limits = (job.max_retries, msgspec.json.encode(job.backoff))
        timeouts = _timeouts(transaction, execution_id)
        budget = _budget(transaction, given, row.tenant_id)
        found.append((execution_id, row.failures, row.crashes, *limits, timeouts, recent, *budget))
    return found


def _budget(transaction: Transaction, given: Given, tenant_id: str) -> tuple[int, int]:
    """First attempts and retries of a tenant, lately."""
    since_ms = transaction.server.now_ms() - given["window"].total_seconds() * 1000
    spans = [
        span.tally
        for _, span in transaction.rows(TASK_TALLIES)
        if span.name.tenant_id == tenant_id and span.since_ms > since_ms
    ]
    return sum(tally.firsts for tally in spans), sum(tally.retries for tally in spans)


@statement("settle")
def settle(transaction: Transaction, given: Given) -> list[Any]:
    names = ("execution_ids", "attempts", "tokens", "states", "reasons", "due", "failures", "outcomes")
    more = ("workers", "ended", "crashed", "outputs")
    settled = []
    for execution_id, attempt, token, state, reason, due_ms, failures, outcome, *rest in sorted(
        zip(*(given[name] for name in names + more), strict=True)
    ):
        row = current(transaction, execution_id, attempt, token)
        if row is None:
            continue
        worker, ended_ms, crashed, output = rest
        if row.asked_to_stop and state in WAITING_STATES:
            state = reason = "cancelled"
        waits = state in WAITING_STATES
        put_execution(
            transaction,
            row._replace(
                state=state,
                reason=reason or None,
                failures=max(row.failures, failures),
                crashes=row.crashes + crashed,
                attempt=row.attempt + waits,
                due_ms=due_ms if waits else row.due_ms,
                output=output.encode() or row.output,
                claim_token=None,
                lease_until_ms=None,
                timeout_at_ms=None,
                reported=None,
            ),
        )
        key = (execution_id, attempt)
        if transaction.get(ATTEMPTS, key) is None:
            transaction.put(ATTEMPTS, key, Attempt(execution_id, attempt, outcome, worker, ended_ms))
        if given["put_off"] and row.dag_run_id is not None and not waits:
            put_off(transaction, row._replace(state=state, reason=reason or None))
        settled.append((execution_id, state, row.dag_run_id, row.job_id, row.item_no, reason or None))
    return settled


@statement("bury")
def bury(transaction: Transaction, given: Given) -> list[Any]:
    for execution_id in given["execution_ids"]:
        row: Execution = transaction.get(EXECUTIONS, execution_id)
        if row.state == "dead":
            transaction.put(DEAD_LETTERS, (execution_id, row.attempt), row)
    return []


# --- the sweep ----------------------------------------------------------------------------------------


@statement("sweep_claims")
def sweep_claims(transaction: Transaction, given: Given) -> list[Any]:
    """Nothing to clear away: the twin looks at all executions for those that run."""
    return []


@statement("sweep_lost")
def sweep_lost(transaction: Transaction, given: Given) -> list[Any]:
    now_ms = transaction.server.now_ms()
    settled = dict(zip(given["topic_partitions"], given["settled"], strict=True))
    grace_ms = given["grace"].total_seconds() * 1000
    leases = dict(zip(given["pools"], given["leases"], strict=True))
    found = []
    for row in _free(transaction, executions(transaction, given["partitions"], "running")):
        if row.lease_until_ms is None or row.timeout_at_ms is None:
            continue  # It runs without a worker: a DAG's run, or a fan-out.
        if row.dag_run_id is not None and row.dag_run_id not in given["run_ids"]:
            continue
        silent = row.lease_until_ms < now_ms
        heard_ms = row.lease_until_ms - leases[job_of(transaction, row).pool].total_seconds() * 1000
        if (silent or row.timeout_at_ms + grace_ms < heard_ms) and not _is_reported(row, given, settled):
            transaction.lock(EXECUTIONS, row.execution_id)
            found.append(_lost(transaction, row, not silent))
    return found[: given["most"]]


def _is_reported(row: Execution, given: Given, settled: dict[int, int]) -> bool:
    """Its result stands in the results topic, and was not settled yet."""
    if row.reported is None:
        return False
    generation, topic_partition, offset = row.reported
    return generation == given["generation"] and offset >= settled.get(topic_partition, offset + 1)


def _lost(transaction: Transaction, row: Execution, hangs: bool) -> tuple[Any, ...]:
    started_ms = int(row.started_ms or row.lease_until_ms or 0)
    head = (row.execution_id, row.job_id, row.partition, row.tenant_id, job_of(transaction, row).task)
    attempt = (row.dag_run_id or b"", row.attempt, row.claim_token, row.worker or "")
    return (*head, *attempt, started_ms, hangs, whole_now_ms(transaction))


@statement("counts")
def counts(transaction: Transaction, given: Given) -> list[Any]:
    held = Counter(row.reason for row in executions(transaction, given["partitions"], "held"))
    dead = sum(row.partition in given["partitions"] for _, row in transaction.rows(DEAD_LETTERS))
    late = sum(
        run.partition in given["partitions"]
        and run.state == "running"
        and run.sla_ms is not None
        and run.sla_ms < transaction.server.now_ms()
        for _, run in transaction.rows(DAG_RUNS)
    )
    by_reason = (("held", reason, count) for reason, count in held.items())
    return [*by_reason, ("dead", None, dead), ("late", None, late)]


@statement("sweep_overdue")
def sweep_overdue(transaction: Transaction, given: Given) -> list[Any]:
    before_ms = transaction.server.now_ms() - given["overdue"].total_seconds() * 1000
    waiting = executions(transaction, given["partitions"], *WAITING_STATES)
    overdue = [row for row in _free(transaction, waiting) if row.due_ms < before_ms]
    for row in overdue[: given["most"]]:
        put_execution(transaction, row)
    return overdue[: given["most"]]


@statement("sweep_completed")
def sweep_completed(transaction: Transaction, given: Given) -> list[Any]:
    open_jobs = {row.job_id for row in executions(transaction, given["partitions"], *UNFINISHED)}
    open_jobs |= {work.job_id for _, work in transaction.rows(WORK_ROWS) if work.state == "open"}
    over = []
    for job_id, (row, _) in sorted(transaction.rows(JOBS)):
        if row.state != "active" or row.partition not in given["partitions"] or row.last_ms is None:
            continue
        state = transaction.get(ownership.TABLE, row.partition)
        passed = row.last_ms + row.jitter_ms <= state.floor_ms and row.schedule_xid < state.floor_xid
        if passed and job_id not in open_jobs and is_free(transaction, JOBS, job_id):
            over.append(update_job(transaction, row._replace(state="completed")))
    # All in one page: what follows it is the beginning again.
    return [(len(over), *FIRST_ENDING)]


def _free(transaction: Transaction, rows: Iterator[Execution]) -> list[Execution]:
    return [row for row in rows if is_free(transaction, EXECUTIONS, row.execution_id)]


# --- work rows ----------------------------------------------------------------------------------------


@statement("open_work")
def open_work(transaction: Transaction, given: Given) -> list[Any]:
    mine = given["partitions"]
    found = [
        work for _, work in transaction.rows(WORK_ROWS) if work.state == "open" and work.partition in mine
    ]
    for job_id in sorted({work.job_id for work in found}):
        locked_job(transaction, job_id)
    return [_open(transaction, work) for work in sorted(found) if is_free(transaction, WORK_ROWS, work.once)]


def _open(transaction: Transaction, work: Work) -> tuple[Any, ...]:
    transaction.lock(WORK_ROWS, work.once)
    head = (work.work_id, work.job_id, work.tenant_id, work.partition, work.origin, work.schedule)
    times = (work.anchor_ms or 0, work.jitter_ms, work.first_ms, work.last_ms, work.cursor_ms)
    return (*head, work.schedule_no, *times, work.requeue_skipped, job_of(transaction, work).state)


@statement("expand_work")
def expand_work(transaction: Transaction, given: Given) -> list[Any]:
    for execution_id, scheduled_ms, due_ms in sorted(
        zip(given["execution_ids"], given["scheduled"], given["due"], strict=True)
    ):
        transaction.lock(EXECUTIONS, execution_id)
        row: Execution | None = transaction.get(EXECUTIONS, execution_id)
        if row is None:
            head = (given["tenant_id"], given["partition"], given["job_id"], 0, given["origin"], "queued")
            row = Execution(execution_id, *head, scheduled_ms, due_ms, schedule_no=given["schedule_no"])
        elif given["requeue_skipped"] and row.state == "skipped" and row.dag_run_id is None:
            row = row._replace(state="queued", origin=given["origin"], reason=None, due_ms=due_ms)
        else:
            continue
        put_execution(transaction, row)
    return []


@statement("advance_work")
def advance_work(transaction: Transaction, given: Given) -> list[Any]:
    ((key, work),) = [
        (key, work) for key, work in transaction.rows(WORK_ROWS) if work.work_id == given["work_id"]
    ]
    cursor_ms = given["cursor_ms"] if given["cursor_ms"] is not None else work.cursor_ms
    transaction.put(WORK_ROWS, key, work._replace(cursor_ms=cursor_ms, state=given["state"]))
    return [Written()]
