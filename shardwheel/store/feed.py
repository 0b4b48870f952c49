"""How a shard learns what to hold: one load of its partitions, then what changed since a snapshot.

The feed's place is a snapshot of PostgreSQL, not a sequence or a time: a transaction that commits late
is invisible to the snapshot it ran beside, so the next read finds it. The horizon X is the snapshot's
xmin: every change with a smaller xid has been handed out.

    load            → snapshot A, all active jobs and waiting executions
    changes(A)      → snapshot B, what A could not see
    changes(B)      → snapshot C, …

A snapshot means something to the PostgreSQL that it is of, and to no other: after a fail-over a connection
may still lead to the former primary, where nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final

from psycopg import Connection

from shardwheel.errors import UnavailableError
from shardwheel.job import Changes, JobEntry, WaitingExecution
from shardwheel.ports import Identity
from shardwheel.store.bulk import read_rows
from shardwheel.store.sql import sql
from shardwheel.store.stream import Items

# For sessions that read changes and nothing else. The statement is planned once, since planning it takes
# longer than reading, and it finds everything by key. Left to itself the server kept a plan from when the
# tables were small, which went through all jobs for one execution that waits: 493 ms of 170,000 jobs, not 3.
PLANNER: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# Where each kind of row has its columns in what the feed returns.
_JOB = slice(0, len(JobEntry._fields))
_WAITING = slice(_JOB.stop, _JOB.stop + len(WaitingExecution._fields))
_SNAPSHOT = slice(_WAITING.stop, None)


def load(conn: Connection[Any], partitions: Sequence[int]) -> Items[Changes]:
    """The whole of these partitions, in batches that all carry the first snapshot; for `Pool.stream`."""
    snapshot, horizon_xid = _snapshot(conn)
    parameters = {"partitions": list(partitions)}
    yield Changes([], [], snapshot, horizon_xid)
    for rows in read_rows(conn, sql("load_jobs"), parameters):
        yield Changes(_entries(rows), [], snapshot, horizon_xid)
    for rows in read_rows(conn, sql("load_waiting"), parameters):
        yield Changes([], [WaitingExecution._make(row) for row in rows], snapshot, horizon_xid)


def changes(
    conn: Connection[Any], partitions: Sequence[int], since: str, of: Identity | None = None
) -> Changes:
    """What changed in these partitions since the snapshot, and the snapshot to go on from. `of`: which
    PostgreSQL is asked; another one's answer is none."""
    parameters = {"partitions": list(partitions), "since": since}
    rows = conn.execute(sql("feed"), parameters, binary=True, prepare=True).fetchall()
    ((snapshot, *numbers),) = (row[_SNAPSHOT] for row in rows if row[_SNAPSHOT][0] is not None)
    horizon_xid, *identity = map(int, numbers)
    if of is not None and Identity(*identity) != of:
        raise UnavailableError("the change feed's connection leads to another PostgreSQL than the others")
    return Changes(
        _entries(row[_JOB] for row in rows if row[_JOB][0] is not None),
        [WaitingExecution._make(row[_WAITING]) for row in rows if row[_WAITING][0] is not None],
        snapshot,
        horizon_xid,
    )


def _entries(rows: Iterable[Sequence[Any]]) -> list[JobEntry]:
    """What `JobEntry._make` does, in a third of the time: a load makes one of every job."""
    return list(map(tuple.__new__, repeat(JobEntry), rows))


def _snapshot(conn: Connection[Any]) -> tuple[str, int]:
    ((snapshot, horizon_xid),) = conn.execute(sql("snapshot"))
    return snapshot, horizon_xid
