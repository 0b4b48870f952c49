"""The owner's sweep: makes true from the tables what an event, a worker or a message may have missed.

Level-triggered, in database time, in bounded batches: whatever is left comes at the next sweep. Lost
attempts go the same way as results do (`end_attempts`): there is one way out of `running`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from shardwheel.execution import FIRST_ENDING, EndingPage, ResultsStand, Settled
from shardwheel.store.arrays import Bigints, Uuid, Uuids
from shardwheel.store.claim import LEASES
from shardwheel.store.settle import end_attempts
from shardwheel.store.sql import sql
from shardwheel.wire import FORMAT_VERSION, Outcome, Result

# Beyond its time-out an attempt has this long to be ended by its own worker (workers.run.GRACE_S is shorter).
TIMEOUT_GRACE = timedelta(seconds=15)
OVERDUE = timedelta(seconds=60)


def sweep_lost(
    conn: Connection[Any], partitions: Sequence[int], stand: ResultsStand, *, most: int = 500
) -> Settled:
    """Put back what dead workers held (no failure), and end what hangs past its time-out (one). Before it
    looks at all that was claimed, claims of which nothing runs any more are cleared away."""
    sweep_claims(conn, partitions)
    return end_lost(conn, partitions, stand, most=most)


def end_lost(
    conn: Connection[Any],
    partitions: Sequence[int],
    stand: ResultsStand,
    *,
    run_ids: Sequence[bytes] = (),
    most: int,
) -> Settled:
    """Of DAGs only the tasks of these runs, which the caller has locked: runs come before executions."""
    parameters = {
        "partitions": list(partitions),
        "grace": TIMEOUT_GRACE,
        "pools": list(LEASES),
        "leases": list(LEASES.values()),
        "generation": stand.generation,
        "topic_partitions": Bigints(list(stand.settled)),
        "settled": Bigints(list(stand.settled.values())),
        "run_ids": Uuids(run_ids),
        "most": most,
    }
    rows = conn.execute(sql("sweep_lost"), parameters, binary=True, prepare=False).fetchall()
    return end_attempts(conn, [_result(*row) for row in rows])


def sweep_claims(conn: Connection[Any], partitions: Sequence[int]) -> None:
    """Clear away, or shorten, claims of which nothing, or little, runs any more."""
    conn.execute(sql("sweep_claims"), {"partitions": list(partitions)}, prepare=False)


def sweep_completed(
    conn: Connection[Any], partitions: Sequence[int], after: EndingPage = FIRST_ENDING, *, page: int = 2_000
) -> tuple[int, EndingPage]:
    """Complete jobs that are over, among those that ended next: how many, and where to go on."""
    parameters = {
        "partitions": list(partitions),
        "after_partition": after.partition,
        "after_ms": after.last_ms,
        "after_job": Uuid(after.job_id),
        "page": page,
    }
    last = conn.execute(sql("sweep_completed"), parameters, binary=True, prepare=False).fetchone()
    return (0, FIRST_ENDING) if last is None else (last[0], EndingPage._make(last[1:]))


def sweep_overdue(conn: Connection[Any], partitions: Sequence[int], *, most: int = 1_000) -> int:
    """Rarely, once a minute or so: where a pool lags, what is in Kafka already is published again."""
    return _sweep(conn, "sweep_overdue", partitions, most, overdue=OVERDUE)


def _sweep(conn: Connection[Any], name: str, partitions: Sequence[int], most: int, **more: Any) -> int:
    return conn.execute(sql(name), {"partitions": list(partitions), "most": most, **more}).rowcount


def _result(
    execution_id: bytes,
    job_id: bytes,
    partition: int,
    tenant_id: str,
    task: str,
    dag_run_id: bytes,
    attempt: int,
    token: bytes,
    worker: str,
    started_ms: int,
    hangs: bool,
    now_ms: int,
) -> Result:
    """What the worker would have reported, had it been able to."""
    said = (
        (Outcome.TIMED_OUT, "TimeoutError", "it ran past its time-out and its worker did not end it")
        if hangs
        else (Outcome.CRASHED, "WorkerLost", f"worker {worker} was not heard of until its lease ended")
    )
    outcome, error_class, message = said
    head = (
        FORMAT_VERSION,
        execution_id,
        job_id,
        partition,
        attempt,
        token,
        outcome,
        started_ms,
        now_ms,
        worker,
    )
    return Result(
        *head, error_class=error_class, message=message, tenant_id=tenant_id, task=task, dag_run_id=dag_run_id
    )
