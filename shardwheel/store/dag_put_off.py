"""Ends that were put off: tasks that are over, and whose runs have not been told.

Telling a run (`dag_resolve`) locks it, counts, and makes rows: more than half of what settling a DAG's
results costs, and it makes settlings wait for each other. So while results lag, settling only writes down, in
its transaction, who is to be told of what. Until its run was told, such a task has not ended as far as the
run is concerned: whoever counts a run anew sees "over" and "not told" in one statement, since both were
written in one transaction. Whoever tells holds the run's lock and takes the rows out: each end is told once.

    settle, lagging    x: succeeded    dag_put_off: (run, x)
    later              lock run → take (run, x) → resolve: counters, children, the run's own end
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from shardwheel.dag_run import Ended
from shardwheel.execution import Resolved, Told
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.dag_resolve import resolve
from shardwheel.store.dag_runs import lock_runs
from shardwheel.store.sql import sql

# Of one transaction; as large as a batch of results.
MOST = 500
# More than any run has, items of fan-outs included.
EVERY_END = 2**31
# Of a sweep, which must not fail for what follows from too many at once: all else that it sees to would wait.
MOST_SWEPT = 50
# Whoever catches up should have come by: the owner's sweep tells what is older, so that a lag which never
# ends only slows DAGs down.
LONG = timedelta(seconds=60)


def runs_put_off(conn: Connection[Any], after: bytes, *, most: int = MOST) -> list[bytes]:
    """The next runs after this one that are to be told of something."""
    given = {"after": Uuid(after), "most": most}
    return [row[0] for row in conn.execute(sql("dag_runs_put_off"), given, binary=True, prepare=False)]


def tell_runs(conn: Connection[Any], run_ids: Sequence[bytes], *, most: int = MOST) -> Told:
    """Tell these runs what was put off for them, so many ends at most."""
    runs = lock_runs(conn, run_ids)
    given = {"run_ids": Uuids(run_ids), "most": most}
    rows = conn.execute(sql("dag_take_put_off"), given, binary=True, prepare=False).fetchall()
    ended = [Ended._make(row) for row in rows]
    # Of a run that retention has removed there is nothing to tell.
    return Told(len(rows), resolve(conn, [one for one in ended if one.run_id in runs], runs))


def sweep_put_off(
    conn: Connection[Any], partitions: Sequence[int], *, age: timedelta = LONG, most: int = MOST_SWEPT
) -> Resolved:
    """Tell runs of these partitions what was put off long ago, whatever the lag is."""
    given = {"partitions": list(partitions), "age": age, "most": most}
    run_ids = [row[0] for row in conn.execute(sql("dag_long_put_off"), given, binary=True, prepare=False)]
    return tell_runs(conn, run_ids, most=most).resolved if run_ids else Resolved()
