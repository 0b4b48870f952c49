"""What people ask of a job beside its schedule: run now, fill a span, cancel a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.dag_run import Ended
from shardwheel.errors import ConflictError, NotFoundError
from shardwheel.execution import TERMINAL_STATES, ExecutionState, Resolved
from shardwheel.ids import TRIGGER, execution_id, fire_id, partition_of_id, scheduled_ms_of, text_of
from shardwheel.job import JobState
from shardwheel.posting import check_params
from shardwheel.store.arrays import Uuid
from shardwheel.store.audit import Actor
from shardwheel.store.dag_hands import Hand, cancel_run
from shardwheel.store.dag_resolve import Resolution
from shardwheel.store.dag_runs import lock_runs
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import get_job, read_now_ms, refuse_a_task
from shardwheel.store.sql import sql
from shardwheel.times import refuse

_Connection = Connection[Any]
# By one request: an interval of 10 ms has three thousand million times a year.
MOST_BACKFILLED = 1_000_000
SOMEBODY = Actor("cancel")


class Triggered(NamedTuple):
    """The run that was asked for; not new: by the same request before."""

    execution_id: bytes
    is_new: bool


class Cancelled(NamedTuple):
    """What became of an execution that somebody cancelled, and what followed for its DAG's run."""

    outcome: str
    resolved: Resolved = Resolved()


def trigger_job(
    conn: _Connection,
    tenant_id: str,
    job_id: bytes,
    request_id: bytes,
    params: Mapping[str, Any] | None = None,
) -> bytes:
    """Run the job now, paused or not; the execution's id. The same request id is the same run."""
    return trigger_once(conn, tenant_id, job_id, request_id, params).execution_id


def trigger_once(
    conn: _Connection,
    tenant_id: str,
    job_id: bytes,
    request_id: bytes,
    params: Mapping[str, Any] | None = None,
) -> Triggered:
    """As `trigger_job`, for whoever puts on record what is new. Params take the place of a job's; of a DAG
    they go over those of its tasks, field by field."""
    job = _shared(conn, tenant_id, job_id)
    refuse_a_task(job)
    if params is not None:
        check_params(params)
    now_ms = read_now_ms(conn)
    values = {
        "job_id": Uuid(job_id),
        "tenant_id": tenant_id,
        "partition": job.partition,
        "request_id": Uuid(request_id),
        "now_ms": now_ms,
        "execution_id": Uuid(execution_id(TRIGGER, job_id, job.partition, now_ms, request_id)),
        "params": None if params is None else msgspec.json.encode(params).decode(),
    }
    ((stored, is_new),) = conn.execute(sql("trigger_job"), values)
    return Triggered(bytes(stored), is_new)


def backfill_job(
    conn: _Connection, tenant_id: str, job_id: bytes, request_id: bytes, first_ms: int, last_ms: int
) -> int:
    """Fill the schedule's times from `first_ms` to `last_ms` that have no execution, and queue skipped ones
    again: one row, which the partition's owner expands. Returns how many times the span holds."""
    job = _shared(conn, tenant_id, job_id)
    refuse_a_task(job)
    if last_ms < first_ms:
        refuse("to", "comes before from", "give the earlier time first")
    if last_ms > read_now_ms(conn):
        refuse("to", "lies in the future", "a backfill fills the past: choose now or earlier")
    timing = job.timing._replace(start_ms=None)
    count = timing.count_between(first_ms - 1, last_ms)
    if not count:
        refuse("from", "the schedule has no time in that span", "choose a longer one; see: shardctl job next")
    if count > MOST_BACKFILLED:
        refuse("from", f"the span holds {count:,} times", f"fill at most {MOST_BACKFILLED:,} at once")
    values = {
        "job_id": Uuid(job_id),
        "tenant_id": tenant_id,
        "partition": job.partition,
        "origin": "backfill",
        "schedule": job.schedule,
        "schedule_no": 0,
        "anchor_ms": job.anchor_ms,
        "jitter_ms": 0,
        "first_ms": first_ms,
        "last_ms": last_ms,
        "count": count,
        "requeue_skipped": True,
        "request_id": Uuid(request_id),
    }
    conn.execute(sql("add_work_row"), values)
    return count


def cancel_execution(
    conn: _Connection,
    tenant_id: str,
    execution: bytes,
    job_id: bytes | None = None,
    actor: Actor = SOMEBODY,
) -> str:
    """As `cancel`: what became of it, without what followed."""
    return cancel(conn, tenant_id, execution, job_id, actor).outcome


def cancel(
    conn: _Connection,
    tenant_id: str,
    execution: bytes,
    job_id: bytes | None = None,
    actor: Actor = SOMEBODY,
) -> Cancelled:
    """`cancelled`, `already_running` (it is asked to stop) or `already_done`. One that has no row yet is
    cancelled ahead, if its job is named: its fire will find the row. That of a DAG cancels its run."""
    values = {"execution_id": Uuid(execution), "tenant_id": tenant_id}
    of_dag = conn.execute(sql("dag_run_of"), values, binary=True).fetchone()
    if of_dag is not None and of_dag[0] is not None:
        return _cancel_of_dag(conn, Hand(tenant_id, *actor), execution, *of_dag)
    return Cancelled(_cancel(conn, tenant_id, execution, job_id))


def _cancel_of_dag(
    conn: _Connection,
    hand: Hand,
    execution: bytes,
    run_id: bytes,
    task_id: bytes,
    item_no: int | None,
    is_run: bool,
) -> Cancelled:
    if is_run:
        cancelled = cancel_run(conn, hand, run_id)
        return Cancelled("cancelled" if cancelled.changed else "already_done", cancelled.resolved)
    resolution = Resolution(conn, lock_runs(conn, [run_id]))
    done = _cancel(conn, hand.tenant_id, execution, None)
    if done == "cancelled":
        resolution.follow([Ended(run_id, task_id, item_no, "cancelled", "cancelled")])
    elif done == "already_running" and item_no is None:
        resolution.cancel_items(run_id, task_id)
    return Cancelled(done, resolution.close())


def _cancel(conn: _Connection, tenant_id: str, execution: bytes, job_id: bytes | None) -> str:
    values = {"execution_id": Uuid(execution), "tenant_id": tenant_id}
    row = conn.execute(sql("lock_execution"), values).fetchone()
    if row is None:
        return _cancel_ahead(conn, tenant_id, execution, job_id)
    if row[0] in TERMINAL_STATES:
        return "already_done"
    if row[0] == ExecutionState.RUNNING:
        conn.execute(sql("ask_to_stop"), values)
        return "already_running"
    conn.execute(sql("cancel_execution"), values)
    return "cancelled"


def _cancel_ahead(conn: _Connection, tenant_id: str, execution: bytes, job_id: bytes | None) -> str:
    unknown = NotFoundError(f"there is no execution {text_of(execution)}", field="id")
    if job_id is None:
        raise unknown
    job = _shared(conn, tenant_id, job_id)
    scheduled_ms = scheduled_ms_of(execution)
    if partition_of_id(execution) != job.partition or not _is_fire(job, execution, scheduled_ms):
        raise unknown
    values = {
        "execution_id": Uuid(execution),
        "tenant_id": tenant_id,
        "partition": job.partition,
        "job_id": Uuid(job_id),
        "scheduled_ms": scheduled_ms,
    }
    if conn.execute(sql("cancel_ahead"), values).rowcount:
        return "cancelled"
    return cancel_execution(conn, tenant_id, execution)


def _is_fire(job: JobRow, execution: bytes, scheduled_ms: int) -> bool:
    """Whether it is the job's own fire, at a time of its schedule as it stands: any other is never published,
    and gets no row. (What was due by an older schedule has one already.)"""
    is_own = fire_id(job.job_id, job.partition, scheduled_ms) == execution
    return is_own and job.timing.next_after(scheduled_ms - 1) == scheduled_ms


def _shared(conn: _Connection, tenant_id: str, job_id: bytes) -> JobRow:
    """The job, held against a change of its state until this transaction ends."""
    conn.execute(sql("share_job"), {"tenant_id": tenant_id, "job_id": Uuid(job_id)})
    job = get_job(conn, tenant_id, job_id)
    if job.state == JobState.DELETED:
        raise ConflictError(f"job {text_of(job_id)} is deleted", field="id")
    return job
