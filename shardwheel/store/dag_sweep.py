"""The sweep's part in DAGs: tasks whose worker is lost, tasks that can't run any more, runs that were
forgotten.

Runs are locked before executions, everywhere. So a sweep first looks, without a lock, which runs have
something to be ended, locks those, and then looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from shardwheel.dag_run import Ended
from shardwheel.execution import Resolved, ResultsStand, Settled
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.dag_resolve import Resolution, resolve
from shardwheel.store.dag_runs import lock_runs
from shardwheel.store.sql import sql
from shardwheel.store.sweep import TIMEOUT_GRACE, end_lost

FIRST_RUN = bytes(16)


def sweep_tasks(
    conn: Connection[Any], partitions: Sequence[int], stand: ResultsStand, *, most: int = 500
) -> Settled:
    """Put back what dead workers held of DAGs, and end what the claim found unfit to run."""
    given = {"partitions": list(partitions), "grace": TIMEOUT_GRACE, "most": most}
    run_ids = [row[0] for row in conn.execute(sql("dag_swept_runs"), given, binary=True, prepare=False)]
    if not run_ids:
        return Settled({}, 0, {})
    lock_runs(conn, run_ids)
    lost = end_lost(conn, partitions, stand, run_ids=run_ids, most=most)
    doomed = conn.execute(sql("dag_skip_doomed"), {"run_ids": Uuids(run_ids)}, binary=True, prepare=False)
    followed = resolve(conn, [Ended._make(row) for row in doomed])
    return lost._replace(resolved=lost.resolved.and_also(followed))


def sweep_runs(
    conn: Connection[Any], partitions: Sequence[int], after: bytes = FIRST_RUN, *, page: int = 200
) -> tuple[Resolved, bytes]:
    """Rarely: a page of runs, and those that nobody works on counted anew. Where to go on."""
    given = {"partitions": list(partitions), "after": Uuid(after), "page": page}
    looked_at = conn.execute(sql("dag_stale_runs"), given, binary=True, prepare=False).fetchall()
    stale = [run_id for run_id, is_stale in looked_at if is_stale]
    resolved = Resolved()
    if stale:
        runs = lock_runs(conn, stale)
        # Again under the lock: meanwhile somebody may have gone on with it.
        again = conn.execute(sql("dag_stale_runs"), given, binary=True, prepare=False).fetchall()
        sure = {run_id for run_id, is_stale in again if is_stale}
        resolution = Resolution(conn, {run_id: run for run_id, run in runs.items() if run_id in sure})
        resolution.mend()
        resolved = resolution.close()
    return resolved, looked_at[-1][0] if len(looked_at) == page else FIRST_RUN
