"""The gate's statements: claim, ranges, what a lost reply claimed, heartbeats. Twins of the .sql files."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from shardwheel.execution import WAITING_STATES
from shardwheel.limits import TaskName
from shardwheel.memory.connection import Given, statement
from shardwheel.memory.dag_rows import DAG_RUNS
from shardwheel.memory.hold_rows import LimitedType
from shardwheel.memory.job_statements import insert_skip_range, insert_work
from shardwheel.memory.rows import (
    EXECUTIONS,
    Execution,
    SkipRange,
    Work,
    dag_of,
    job_of,
    locked_job,
    put_execution,
)
from shardwheel.memory.slots import Wanted, admit, breaker_of, locked_type, take_job_slots
from shardwheel.memory.transaction import Transaction
from shardwheel.store.job_row import JobRow

Ruling = tuple[str, str | None]
RUNS: Ruling = ("running", None)


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


class Chosen(NamedTuple):
    """The message that counts for an id, its job and task type, and its row as it was or would be."""

    said: Said
    job: JobRow
    limits: LimitedType
    row: Execution
    dag: JobRow | None = None

    @property
    def state(self) -> str:
        """A task obeys its DAG's state, or that of the job at its root."""
        is_own = self.dag is None or self.job.state == "deleted"
        return self.job.state if is_own or self.dag is None else self.dag.state

    def run_id(self, ruling: Ruling) -> bytes | None:
        """The run that it is a task of; a job that has children begins one when it first runs."""
        begins = self.job.has_children and self.row.started_ms is None and ruling == RUNS
        return self.row.execution_id if begins else self.row.dag_run_id

    @property
    def is_dag(self) -> bool:
        return self.job.kind == "dag"

    @property
    def must_not_overlap(self) -> bool:
        return self.job.overlap != "allow"


@statement("claim")
def claim(transaction: Transaction, given: Given) -> list[Any]:
    messages = sorted({Said(*fields) for fields in zip(*(given[name] for name in _SAID), strict=True)})
    jobs = {job_id: locked_job(transaction, job_id) for job_id in sorted({said.job_id for said in messages})}
    names = {TaskName(job.tenant_id, job.task) for job in jobs.values() if job is not None}
    types = {name: locked_type(transaction, name) for name in sorted(names)}
    existing = {said.execution_id: _locked(transaction, said.execution_id) for said in messages}
    chosen = []
    for execution_id, row in existing.items():
        rivals = [said for said in messages if said.execution_id == execution_id]
        said = choose(rivals, jobs, row, given["tasks"])
        if said is not None:
            job = jobs[said.job_id]
            assert job is not None
            limits = types[TaskName(job.tenant_id, job.task)]
            dag_id = dag_of(transaction, job.job_id) if job.kind == "task" else None
            dag = None if dag_id is None else locked_job(transaction, dag_id)
            chosen.append(Chosen(said, job, limits, row or _new_row(said, job), dag))
    rulings = rule(transaction, given, chosen)
    return [_write(transaction, given, one, rulings[one.said.execution_id]) for one in chosen]


def rule(transaction: Transaction, given: Given, chosen: list[Chosen]) -> dict[bytes, Ruling]:
    """What becomes of each: by its job and task type, then the job's slot, then the type's limits."""
    rulings = {one.row.execution_id: verdict(transaction, one, given) for one in chosen}
    wanted = [
        Wanted(one.row.execution_id, one.job.job_id, one.job.partition)
        for one in chosen
        if one.must_not_overlap and rulings[one.row.execution_id] == RUNS
    ]
    refused = {one.execution_id for one in wanted} - take_job_slots(transaction, wanted)
    for one in chosen:
        if one.row.execution_id in refused:
            is_skipped = one.job.overlap == "skip" and one.row.started_ms is None
            rulings[one.row.execution_id] = ("skipped" if is_skipped else "held", "overlap")
    limited = [
        one for one in chosen if is_limited(transaction, one.limits) and rulings[one.row.execution_id] == RUNS
    ]
    for name in sorted({one.limits.name for one in limited}):
        ids = [one.row.execution_id for one in limited if one.limits.name == name]
        rulings |= admit(transaction, name, sorted(ids))
    return rulings


def is_limited(transaction: Transaction, limits: LimitedType) -> bool:
    return limits.is_limited or breaker_of(transaction, limits.name) is not None


def _locked(transaction: Transaction, execution_id: bytes) -> Execution | None:
    transaction.lock(EXECUTIONS, execution_id)
    row: Execution | None = transaction.get(EXECUTIONS, execution_id)
    return row


def choose(
    rivals: list[Said], jobs: dict[bytes, JobRow | None], row: Execution | None, tasks: list[str]
) -> Said | None:
    """The message that counts for one id, if any does; a fire before a skip."""
    for said in sorted(rivals, key=lambda said: said.skip):
        job = jobs[said.job_id]
        if job is not None and may_write(said, job, row, tasks):
            return said
    return None


def may_write(said: Said, job: JobRow, row: Execution | None, tasks: list[str]) -> bool:
    """`tasks`: what the worker has handlers for."""
    if row is None:
        return said.schedule_no == job.schedule_no
    is_unknown = (row.state, row.reason) == ("held", "handler_unknown")
    waits = row.state in WAITING_STATES or (is_unknown and job.task in tasks)
    return waits and row.attempt == said.attempt and not said.skip


def verdict(transaction: Transaction, one: Chosen, given: Given) -> Ruling:
    said, job, limits, row = one[:4]
    now_ms = transaction.server.now_ms()
    in_run = row.dag_run_id is not None
    is_task = in_run and row.dag_run_id != row.execution_id
    began = row.started_ms is not None
    breaker = breaker_of(transaction, limits.name)
    if said.skip:
        return "skipped", said.skip_reason
    if one.state == "deleted":
        return "held" if in_run else "skipped", "deleted"
    if one.state == "paused" and is_task and transaction.get(DAG_RUNS, row.dag_run_id).origin != "trigger":
        return "held", "paused"
    if one.state == "paused" and not is_task and (said.attempt > 1 or began):
        return "held", "paused"
    if one.state == "paused" and not is_task and row.origin in ("schedule", "settled"):
        return "skipped", "paused"
    if not began and job.not_after_ms is not None and row.due_ms + job.not_after_ms < now_ms:
        return "held" if is_task else "skipped", "expired"
    if (job.pool, job.priority) != (given["pool"], said.priority):
        return "queued", "moved"
    if one.is_dag:
        return RUNS
    if job.task not in given["tasks"]:
        return "held", "handler_unknown"
    if limits.paused:
        return "held", "task_paused"
    if breaker is not None and (breaker.open_until_ms or 0) > now_ms:
        return "held", "breaker_open"
    return RUNS


def _new_row(said: Said, job: JobRow) -> Execution:
    return Execution(
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


def _write(transaction: Transaction, given: Given, one: Chosen, ruling: Ruling) -> tuple[Any, ...]:
    _, job, limits, row = one[:4]
    state, reason = ruling
    now_ms = transaction.server.now_ms()
    runs = state == "running" and not one.is_dag
    run_id = one.run_id(ruling)
    put_execution(
        transaction,
        row._replace(
            state=state,
            dag_run_id=run_id,
            reason=reason,
            due_ms=now_ms if state == "queued" else row.due_ms,
            claim_token=given["token"] if runs else None,
            worker=given["worker"] if runs else None,
            lease_until_ms=now_ms + given["lease"].total_seconds() * 1000 if runs else None,
            timeout_at_ms=now_ms + job.timeout_ms if runs else None,
            started_ms=now_ms if state == "running" else row.started_ms,
            reported=None,
            slotted=row.slotted or one.must_not_overlap or is_limited(transaction, limits),
        ),
    )
    begins_run = one.is_dag or run_id != row.dag_run_id
    return (state, reason, *_run(row._replace(dag_run_id=run_id), job), begins_run)


def _run(row: Execution, job: JobRow) -> tuple[Any, ...]:
    params = msgspec.json.encode(job.params) if row.params is None else row.params.encode()
    head = (row.execution_id, row.job_id, row.partition, row.tenant_id, job.task, params, row.scheduled_ms)
    return (
        *head,
        row.attempt,
        row.failures,
        job.timeout_ms,
        int(row.due_ms),
        "",
        row.dag_run_id or b"",
        job.kind == "dag",
    )


@statement("claimed_by")
def claimed_by(transaction: Transaction, given: Given) -> list[Any]:
    found = []
    for execution_id in sorted(set(given["execution_ids"])):
        row: Execution | None = transaction.get(EXECUTIONS, execution_id)
        if row is not None and (row.state, row.claim_token) == ("running", given["token"]):
            found.append(("running", None, *_run(row, job_of(transaction, row)), False))
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
