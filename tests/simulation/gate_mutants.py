"""Mistakes in what people's changes, the claim and the settling of results do to the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from shardwheel.execution import WAITING_STATES
from shardwheel.job import JobEntry, JobState
from shardwheel.memory import claim_statements, feed_statements, ownership, rows, settle_statements
from shardwheel.memory.claim_statements import Said
from shardwheel.memory.connection import Given
from shardwheel.memory.rows import Execution
from shardwheel.memory.transaction import Transaction
from shardwheel.store import jobs, settlement
from shardwheel.store.arrays import Uuid
from shardwheel.store.job_row import JobRow
from shardwheel.store.sql import sql
from tests.simulation import people
from tests.simulation.planting import FOREVER_XID, mutant, statement_replaced

# --- settling an old schedule -------------------------------------------------------------------------


@mutant("settle from T, not from the floor, and without the rule on X")
def settle_from_t() -> Sequence[Any]:
    def floor(transaction: Transaction, given: Given) -> list[Any]:
        (state,) = ownership.read_partitions(transaction, [given["partition"]])
        return [(state.fired_through_ms, state.fired_through_ms, FOREVER_XID)]

    return [statement_replaced("floor", floor)]


@mutant("settle from the stored (T, X), not from the floor")
def settle_from_pair() -> Sequence[Any]:
    def floor(transaction: Transaction, given: Given) -> list[Any]:
        (state,) = ownership.read_partitions(transaction, [given["partition"]])
        return [(state.fired_through_ms, state.fired_through_ms, state.horizon_xid)]

    return [statement_replaced("floor", floor)]


@mutant("pause and delete settle nothing")
def pause_settles_nothing() -> Sequence[Any]:
    def end_schedule(conn: Any, old: JobRow, state: JobState) -> None:
        conn.execute(sql("change_state"), {"job_id": Uuid(old.job_id), "state": state})

    return [patch.object(jobs, "_end_schedule", end_schedule)]


@mutant("an edit settles nothing")
def edit_settles_nothing() -> Sequence[Any]:
    settle = settlement.settle_old_schedule

    def only_skips(conn: Any, old: JobRow, until_ms: int, *, now_ms: int, skip_as: str | None) -> int:
        return settle(conn, old, until_ms, now_ms=now_ms, skip_as=skip_as) if skip_as else 0

    return [patch.object(jobs, "settle_old_schedule", only_skips)]


@mutant("resume settles the paused span")
def resume_settles() -> Sequence[Any]:
    resume = jobs.resume_job

    def resume_and_settle(conn: Any, tenant_id: str, job_id: bytes) -> JobRow:
        old = jobs.get_job(conn, tenant_id, job_id)
        new = resume(conn, tenant_id, job_id)
        if old.state == JobState.PAUSED:
            until_ms = new.effective_from_ms
            settlement.settle_old_schedule(conn, old, until_ms, now_ms=until_ms, skip_as=None)
        return new

    return [patch.object(people, "resume_job", resume_and_settle)]


# --- the gate -----------------------------------------------------------------------------------------


@mutant("the claim does not look at schedule_no")
def any_schedule_no() -> Sequence[Any]:
    def may_write(said: Any, job: JobRow, row: Execution | None, tasks: list[str]) -> bool:
        return row is None or (row.state in WAITING_STATES and row.attempt == said.attempt and not said.skip)

    return [patch.object(claim_statements, "may_write", may_write)]


@mutant("the claim compares the job's version")
def by_version() -> Sequence[Any]:
    entry, claim_ranges = feed_statements._entry, claim_statements.claim_ranges

    def with_version(job: rows.StoredJob) -> JobEntry:
        return entry(job)._replace(schedule_no=job.row.version)

    def may_write(said: Any, job: JobRow, row: Execution | None, tasks: list[str]) -> bool:
        if row is None:
            return bool(said.schedule_no == job.version)
        return row.state in WAITING_STATES and row.attempt == said.attempt and not said.skip

    def of_version(transaction: Transaction, given: Given) -> list[Any]:
        jobs = [rows.locked_job(transaction, job_id) for job_id in given["job_ids"]]
        numbers = [
            job.schedule_no if job is not None and job.version == version else 0
            for job, version in zip(jobs, given["schedule_nos"], strict=True)
        ]
        return claim_ranges(transaction, given | {"schedule_nos": numbers})

    return [
        patch.object(feed_statements, "_entry", with_version),
        patch.object(claim_statements, "may_write", may_write),
        statement_replaced("claim_ranges", of_version),
    ]


@mutant("the claim takes what runs already")
def takes_what_runs() -> Sequence[Any]:
    def may_write(said: Any, job: JobRow, row: Execution | None, tasks: list[str]) -> bool:
        if row is None:
            return bool(said.schedule_no == job.schedule_no)
        return row.state in (*WAITING_STATES, "running") and row.attempt == said.attempt and not said.skip

    return [patch.object(claim_statements, "may_write", may_write)]


@mutant("the claim does not lock the job")
def without_for_share() -> Sequence[Any]:
    def unlocked(transaction: Transaction, job_id: bytes) -> JobRow | None:
        found = transaction.get(rows.JOBS, job_id)
        return None if found is None else found.row

    return [patch.object(claim_statements, "locked_job", unlocked)]


@mutant("a message of an old schedule is recorded as skipped")
def stale_is_skipped() -> Sequence[Any]:
    choose = claim_statements.choose

    def first(
        rivals: list[Said], jobs: dict[bytes, JobRow | None], row: Execution | None, tasks: list[str]
    ) -> Said | None:
        stale = rivals[0]._replace(skip=True, skip_reason="paused")
        right = choose(rivals, jobs, row, tasks)
        return stale if right is None and row is None and jobs[stale.job_id] is not None else right

    return [patch.object(claim_statements, "choose", first)]


@mutant("a result of an old attempt is taken")
def stale_result() -> Sequence[Any]:
    def running(
        transaction: Transaction, execution_id: bytes, attempt: int, token: bytes
    ) -> Execution | None:
        if transaction.get(rows.EXECUTIONS, execution_id) is None:
            return None
        transaction.lock(rows.EXECUTIONS, execution_id)
        row: Execution = transaction.get(rows.EXECUTIONS, execution_id)
        return row if row.state == "running" else None

    return [patch.object(settle_statements, "current", running)]
