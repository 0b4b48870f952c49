"""Retention: what is over goes after a while, in batches, and never what a repeated fire must still meet.

An execution's row is what kills the second fire of the same time. So it is removed only below its partition's
claim floor: above it, everything may be fired again (`old_executions.sql` says it in full). How far rows may
be gone is noted in the same transaction, and a replay by hand goes no further back.

A DAG's run goes whole: what succeeded of it stays as long as somebody may let the rest go on, since a task
whose row is gone would run again.

Executions are found by walking their primary key: by class some go early and some late, so whole months can't
go. A month goes once it is empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.keeping import Keep
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.sql import sql

BATCH = 10_000
FROM_THE_OLDEST = bytes(16)
# Beside the executions: whatever has an age of its own.
OTHERS = (
    "retire_runs",
    "retire_versions",
    "retire_letters",
    "retire_callbacks",
    "retire_open_callbacks",
    "retire_keys",
    "retire_audit",
    "retire_skip_ranges",
    "retire_work",
    "retire_jobs",
)


class Retired(NamedTuple):
    """How many executions went, and where the walk goes on (None: it is through, or another one walks)."""

    gone: int
    after: bytes | None


def retire_executions(conn: Connection[Any], keep: Keep, after: bytes, *, most: int = BATCH) -> Retired:
    """Look at the next executions after this id, and remove those that are old enough."""
    if conn.execute(sql("lock_retention")).fetchone() is None:
        return Retired(0, None)
    look = {**keep._asdict(), "after": Uuid(after), "most": most}
    looked = conn.execute(sql("old_executions"), look, prepare=False).fetchall()
    old = [(execution_id, through_ms) for execution_id, through_ms, is_old in looked if is_old]
    goes_on = looked[-1][0] if len(looked) == most else None
    return Retired(_remove(conn, old) if old else 0, goes_on)


def retire_others(conn: Connection[Any], name: str, keep: Keep, *, most: int = BATCH) -> int:
    """Remove a batch of one of `OTHERS`; how many."""
    return conn.execute(sql(name), {**keep._asdict(), "most": most}, prepare=False).rowcount


def drop_empty_months(conn: Connection[Any], keep: Keep) -> list[str]:
    """Drop the months that retention has emptied; their names."""
    longest = max(keep.succeeded, keep.failed)
    ((names,),) = conn.execute("SELECT shardwheel.drop_empty_months(clock_timestamp() - %s)", [longest])
    return list(names)


def _remove(conn: Connection[Any], old: list[tuple[bytes, int]]) -> int:
    """Ids, in their order, each with the time through which it may have been fired."""
    parameters = {
        "execution_ids": Uuids([execution_id for execution_id, _ in old]),
        "first_id": Uuid(old[0][0]),
        "last_id": Uuid(old[-1][0]),
        "through_ms": max(through_ms for _, through_ms in old),
    }
    ((count,),) = conn.execute(sql("retire_executions"), parameters, prepare=False)
    return int(count)
