"""A DAG's fire was claimed, or a job that has children: its run begins, in the transaction of the claim.

The run has the id of the execution that the claim made `running`, so a repeated fire makes no second one.
That of a DAG has no worker, lease or time-out: it ends with the run. That of a job is a task of the run, the
one that all others wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from shardwheel.execution import Resolved
from shardwheel.store.arrays import Uuids
from shardwheel.store.dag_resolve import Child, Resolution
from shardwheel.store.dag_runs import lock_runs
from shardwheel.store.sql import sql


def start_runs(conn: Connection[Any], execution_ids: Sequence[bytes]) -> Resolved:
    """Begin the runs of these executions, each with the newest version, and queue what waits for nobody."""
    given = {"execution_ids": Uuids(execution_ids)}
    run_ids = [row[0] for row in conn.execute(sql("dag_start"), given, binary=True, prepare=False)]
    resolution = Resolution(conn, lock_runs(conn, run_ids))
    roots = conn.execute(sql("dag_roots"), {"run_ids": Uuids(run_ids)}, binary=True, prepare=False).fetchall()
    resolution.follow(resolution.begin(Child(*row) for row in roots))
    return resolution.close()
