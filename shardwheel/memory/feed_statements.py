"""The statements of the change feed and of the partitions' stand: twins of the .sql files.

A snapshot has PostgreSQL's own text, `xmin:xmax:xip,…`: which transactions had ended when it was taken.
"""

from __future__ import annotations

from typing import Any

from shardwheel.execution import WAITING_STATES
from shardwheel.job import JobEntry, JobState, WaitingExecution
from shardwheel.memory import ownership
from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.rows import EXECUTIONS, JOBS, Execution, StoredJob, job_of
from shardwheel.memory.transaction import Transaction
from shardwheel.ports import Identity


@statement("snapshot")
def snapshot(transaction: Transaction, given: Given) -> list[Any]:
    server = transaction.server
    running = [other.assigned_xid for other in server.open_transactions if other.assigned_xid is not None]
    xmin = server.snapshot_xmin()
    text = f"{xmin}:{server.next_xid}:{','.join(map(str, sorted(running)))}"
    return [(text, xmin)]


def is_visible(xid: int, text: str) -> bool:
    """pg_visible_in_snapshot."""
    xmin, xmax, running = text.split(":")
    if xid < int(xmin):
        return True
    return xid < int(xmax) and str(xid) not in running.split(",")


@statement("load_jobs")
def load_jobs(transaction: Transaction, given: Given) -> list[Any]:
    return [_entry(job) for job in _jobs(transaction, given) if job.row.state == JobState.ACTIVE]


@statement("load_waiting")
def load_waiting(transaction: Transaction, given: Given) -> list[Any]:
    return [_waiting(transaction, row) for row in _waits(transaction, given)]


@statement("feed")
def feed(transaction: Transaction, given: Given) -> list[Any]:
    """Jobs, waiting executions and the snapshot, with whose it is, each in columns of their own."""
    since, (place,) = given["since"], snapshot(transaction, {})
    jobs = [_entry(job) for job in _jobs(transaction, given) if not is_visible(job.changed_xid, since)]
    waiting = [
        _waiting(transaction, row)
        for row in _waits(transaction, given)
        if not is_visible(row.changed_xid or 0, since)
    ]
    no_job, no_wait = (None,) * len(JobEntry._fields), (None,) * len(WaitingExecution._fields)
    no_place = (None,) * (len(place) + len(Identity._fields))
    return [
        *((*job, *no_wait, *no_place) for job in jobs),
        *((*no_job, *one, *no_place) for one in waiting),
        (*no_job, *no_wait, *map(str, (*place, *transaction.server.identity))),
    ]


def _jobs(transaction: Transaction, given: Given) -> list[StoredJob]:
    """Not a DAG's tasks: they have no times, and fire as waiting executions only."""
    jobs = [job for _, job in transaction.rows(JOBS) if job.row.partition in given["partitions"]]
    return [job for job in jobs if job.row.kind != "task"]


def _waits(transaction: Transaction, given: Given) -> list[Execution]:
    mine = given["partitions"]
    return [
        row
        for _, row in transaction.rows(EXECUTIONS)
        if row.state in WAITING_STATES and row.partition in mine
    ]


def _entry(job: StoredJob) -> JobEntry:
    row = job.row
    return JobEntry(
        row.job_id,
        row.partition,
        row.state == JobState.ACTIVE,
        row.version,
        row.schedule,
        row.anchor_ms or 0,
        row.start_ms,
        row.last_ms,
        row.jitter_ms,
        row.misfire,
        row.misfire_grace_ms,
        row.catchup_window_ms,
        row.pool,
        row.priority,
        row.schedule_no,
        row.schedule_xid,
        row.effective_from_ms,
    )


def _waiting(transaction: Transaction, row: Execution) -> WaitingExecution:
    job = job_of(transaction, row)
    return WaitingExecution(
        row.execution_id,
        row.job_id,
        row.partition,
        row.attempt,
        int(row.due_ms),
        row.scheduled_ms,
        job.pool,
        job.priority,
        row.changed_xid or 0,
    )


@statement("floor")
def floor(transaction: Transaction, given: Given) -> list[Any]:
    (state,) = ownership.read_partitions(transaction, [given["partition"]])
    return [(state.fired_through_ms, state.floor_ms, state.floor_xid)]


@statement("store_floors")
def store_floors(transaction: Transaction, given: Given) -> list[Any]:
    identity = Identity(given["system_identifier"], given["timeline"])
    written = []
    columns = (given["partitions"], given["epochs"], given["floors"], given["xids"])
    for partition, epoch, floor_ms, xid in zip(*columns, strict=True):
        transaction.lock(ownership.TABLE, partition)
        state = transaction.get(ownership.TABLE, partition)
        same_server = identity == state.identity == transaction.server.identity
        same_ground = same_server and state.kafka_generation == given["generation"]
        if same_ground and state.epoch == epoch and state.floor_ms <= floor_ms:
            moved = state._replace(floor_ms=floor_ms, floor_xid=int(xid))
            transaction.put(ownership.TABLE, partition, moved)
            written.append(Written())
    return written
