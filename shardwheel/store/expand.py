"""Work rows: spans of many times (a large catch-up, a settled schedule, a backfill), expanded bit by bit.

Held-back fires inside a cycle would pin a partition's watermark for hours, so such a span is one row, and
whoever owns the partition turns some of it into waiting executions at each sweep. The cursor moves in
the transaction that inserts them: a crash repeats nothing and leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.ids import fire_id
from shardwheel.missed import fire_time
from shardwheel.schedule import schedule_of
from shardwheel.store.arrays import Bigints, Uuid, Uuids
from shardwheel.store.sql import sql


class WorkRow(NamedTuple):
    work_id: int
    job_id: bytes
    tenant_id: str
    partition: int
    origin: str
    schedule: str
    schedule_no: int
    anchor_ms: int
    jitter_ms: int
    first_ms: int
    last_ms: int
    cursor_ms: int | None
    requeue_skipped: bool
    job_state: str

    def next_times(self, most: int) -> list[int]:
        after_ms = self.first_ms - 1 if self.cursor_ms is None else self.cursor_ms
        times = schedule_of(self.schedule).times_between(after_ms, self.last_ms, self.anchor_ms)
        return list(islice(times, most))

    def due_ms(self, scheduled_ms: int) -> int:
        schedule = schedule_of(self.schedule)
        return fire_time(schedule, self.job_id, scheduled_ms, self.anchor_ms, self.jitter_ms)


def expand_work(conn: Connection[Any], partitions: Sequence[int], most: int) -> int:
    """Turn up to `most` times into waiting executions, shared fairly between the open rows; how many."""
    rows = [WorkRow._make(row) for row in conn.execute(sql("open_work"), {"partitions": list(partitions)})]
    if not rows:
        return 0
    share = max(1, most // len(rows))
    return sum(_expand(conn, row, share) for row in rows[:most])


def _expand(conn: Connection[Any], row: WorkRow, most: int) -> int:
    if row.job_state == "deleted":
        _advance(conn, row, [], "cancelled")
        return 0
    times = row.next_times(most)
    if times:
        parameters = {
            "tenant_id": row.tenant_id,
            "partition": row.partition,
            "job_id": Uuid(row.job_id),
            "origin": row.origin,
            "schedule_no": row.schedule_no,
            "requeue_skipped": row.requeue_skipped,
            "execution_ids": Uuids([fire_id(row.job_id, row.partition, time_ms) for time_ms in times]),
            "scheduled": Bigints(times),
            "due": Bigints([row.due_ms(time_ms) for time_ms in times]),
        }
        conn.execute(sql("expand_work"), parameters, prepare=False)
    _advance(conn, row, times, "open" if len(times) == most else "done")
    return len(times)


def _advance(conn: Connection[Any], row: WorkRow, times: list[int], state: str) -> None:
    parameters = {
        "work_id": row.work_id,
        "cursor_ms": times[-1] if times else None,
        "expanded": len(times),
        "state": state,
    }
    conn.execute(sql("advance_work"), parameters)
