"""The gate's statements: claim, ranges, what a lost reply claimed, heartbeats. Twins of the .sql files."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from shardwheel.execution import WAITING_STATES
from shardwheel.memory.connection import Given, statement
from shardwheel.memory.job_statements import insert_skip_range, insert_work
from shardwheel.memory.rows import (
    EXECUTIONS,
    Execution,
    SkipRange,
    Work,
    job_of,
    locked_job,
    put_execution,
)
from shardwheel.memory.transaction import Transaction
from shardwheel.store.job_row import JobRow


class Said(NamedTuple):
    """One message of a batch."""

    execution_id: bytes
    job_id: bytes
    schedule_no: int
    scheduled_ms: int
    due_ms: int
    attempt: int
    skip: bool
    skip_reason: str
    priority: int


_SAID = (
    "execution_ids",
    "job_ids",
    "schedule_nos",
    "scheduled",
    "due",
    "attempts",
    "skips",
    "reasons",
    "priorities",
)


@statement("claim")
def claim(transaction: Transaction, given: Given) -> list[Any]:
    messages = sorted({Said(*fields) for fields in zip(*(given[name] for name in _SAID), strict=True)})
    jobs = {job_id: locked_job(transaction, job_id) for job_id in sorted({said.job_id for said in messages})}
    existing = {said.execution_id: _locked(transaction, said.execution_id) for said in messages}
    answers = []
    for execution_id, row in existing.items():
        rivals = [said for said in messages if said.execution_id == execution_id]
        said = choose(rivals, jobs, row)
        if said is not None:
            job = jobs[said.job_id]
            assert job is not None
            answers.append(_write(transaction, given, said, job, row))
    return answers


def _locked(transaction: Transaction, execution_id: bytes) -> Execution | None:
    transaction.lock(EXECUTIONS, execution_id)
    row: Execution | None = transaction.get(EXECUTIONS, execution_id)
    return row


def choose(rivals: list[Said], jobs: dict[bytes, JobRow | None], row: Execution | None) -> Said | None:
    """The message that counts for one id, if any does; a fire before a skip."""
    for said in sorted(rivals, key=lambda said: said.skip):
        job = jobs[said.job_id]
        if job is not None and may_write(said, job, row):
            return said
    return None


def may_write(said: Said, job: JobRow, row: Execution | None) -> bool:
    if row is None:
        return said.schedule_no == job.schedule_no
    return row.state in WAITING_STATES and row.attempt == said.attempt and not said.skip


def verdict(said: Said, job: JobRow, row: Execution, given: Given, now_ms: float) -> tuple[str, str | None]:
    began = row.started_ms is not None
    if said.skip:
        return "skipped", said.skip_reason
    if job.state == "deleted":
        return "skipped", "deleted"
    if job.state == "paused" and (said.attempt > 1 or began):
        return "held", "paused"
    if job.state == "paused" and row.origin in ("schedule", "settled"):
        return "skipped", "paused"
    if not began and job.not_after_ms is not None and row.due_ms + job.not_after_ms < now_ms:
        return "skipped", "expired"
    if (job.pool, job.priority) != (given["pool"], said.priority):
        return "queued", "moved"
    if job.task not in given["tasks"]:
        return "held", "handler_unknown"
    return "running", None


def _write(
    transaction: Transaction, given: Given, said: Said, job: JobRow, row: Execution | None
) -> tuple[Any, ...]:
    now_ms = transaction.server.now_ms()
    base = row or Execution(
        said.execution_id,
        job.tenant_id,
        job.partition,
        job.job_id,
        0,
        "schedule",
        "new",
        said.scheduled_ms,
        said.due_ms,
        attempt=said.attempt,
        schedule_no=said.schedule_no,
    )
    state, reason = verdict(said, job, base, given, now_ms)
    runs = state == "running"
    put_execution(
        transaction,
        base._replace(
            state=state,
            reason=reason,
            due_ms=now_ms if state == "queued" else base.due_ms,
            claim_token=given["token"] if runs else None,
            worker=given["worker"] if runs else None,
            lease_until_ms=now_ms + given["lease"].total_seconds() * 1000 if runs else None,
            timeout_at_ms=now_ms + job.timeout_ms if runs else None,
            started_ms=now_ms if runs else base.started_ms,
            reported=None,
        ),
    )
    return (state, reason, *_run(base, job))


def _run(row: Execution, job: JobRow) -> tuple[Any, ...]:
    params = msgspec.json.encode(job.params) if row.params is None else row.params.encode()
    head = (row.execution_id, row.job_id, row.partition, row.tenant_id, job.task, params, row.scheduled_ms)
    return (*head, row.attempt, row.failures, job.timeout_ms, int(row.due_ms))


@statement("claimed_by")
def claimed_by(transaction: Transaction, given: Given) -> list[Any]:
    found = []
    for execution_id in sorted(set(given["execution_ids"])):
        row: Execution | None = transaction.get(EXECUTIONS, execution_id)
        if row is not None and (row.state, row.claim_token) == ("running", given["token"]):
            found.append(("running", None, *_run(row, job_of(transaction, row))))
    return found


@statement("claim_ranges")
def claim_ranges(transaction: Transaction, given: Given) -> list[Any]:
    names = ("job_ids", "schedule_nos", "first", "last", "counts", "skips", "reasons")
    skipped: Counter[str] = Counter()
    work = 0
    for job_id, number, first_ms, last_ms, count, skip, reason in sorted(
        set(zip(*(given[name] for name in names), strict=True))
    ):
        job = locked_job(transaction, job_id)
        if job is None or job.schedule_no != number:
            continue
        if skip:
            span = SkipRange(job_id, first_ms, last_ms, count, reason, number)
            skipped[reason] += count * len(insert_skip_range(transaction, span))
        else:
            work += len(insert_work(transaction, _work(job, first_ms, last_ms, count)))
    return [*((reason, count) for reason, count in sorted(skipped.items()) if count), ("", work)]


def _work(job: JobRow, first_ms: int, last_ms: int, count: int) -> Work:
    return Work(
        0,
        job.tenant_id,
        job.partition,
        job.job_id,
        "schedule",
        job.schedule,
        job.schedule_no,
        job.anchor_ms,
        job.jitter_ms,
        first_ms,
        last_ms,
        count,
    )


@statement("heartbeat")
def heartbeat(transaction: Transaction, given: Given) -> list[Any]:
    names = ("execution_ids", "attempts", "tokens", "partitions", "offsets")
    held = []
    for execution_id, attempt, token, partition, offset in sorted(
        zip(*(given[name] for name in names), strict=True)
    ):
        row = _locked(transaction, execution_id)
        if row is None or (row.state, row.attempt, row.claim_token) != ("running", attempt, token):
            continue
        reported = (given["generation"], partition, offset) if offset >= 0 else row.reported
        lease_until_ms = transaction.server.now_ms() + given["lease"].total_seconds() * 1000
        put_execution(transaction, row._replace(lease_until_ms=lease_until_ms, reported=reported))
        held.append((execution_id, row.asked_to_stop))
    return held
