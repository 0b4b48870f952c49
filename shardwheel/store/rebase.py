"""After a restore into another PostgreSQL: its transaction ids start again, so the stored ones mean nothing.

A dump that is restored elsewhere brings jobs with the xids of the system they came from. Compared with the
new system's they may all lie in the future, and the feed would read everything for ever, or in the past, and
a change that nobody has fired yet would pass for one that was. So shards take no partition of another system
until it is rebased:

    floor's X_F = 7,000,000      job a: schedule_xid 6,999,000     job b: schedule_xid 7,000,123
    rebased in transaction 950   X = X_F = 950, T = F    a: 3      b: 950

a goes on after F, b from its `effective_from`, as after any loss; what ran already dies at the claim.
A physical backup keeps its system, and gets a new timeline: shards see to that by themselves.
"""

from __future__ import annotations

from shardwheel.store.link import Connection
from shardwheel.store.sql import sql


def rebase(connection: Connection) -> int:
    """Make this PostgreSQL the one that all partitions are stored under; how many were not. Where none is
    another's there is nothing to do. The caller's role owns the tables, as for migrations; it commits."""
    if not count_foreign(connection):
        return 0
    connection.execute(sql("rebase_begin"))
    partitions = [partition for (partition,) in connection.execute(sql("rebase_partitions"))]
    given = {"partitions": partitions}
    for statement in ("rebase_jobs", "rebase_waiting", "rebase_work", "rebase_floor"):
        connection.execute(sql(statement), given)
    connection.execute(sql("rebase_end"))
    return len(partitions)


def count_foreign(connection: Connection) -> int:
    """How many partitions wait to be rebased."""
    ((count,),) = connection.execute(sql("count_foreign"))
    return int(count)
