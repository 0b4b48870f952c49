"""A schedule change settles the old schedule: its times that may not have met the claim go on record.

Without this, an edit a moment after a crash would swallow the run that was due: the new owner replays the
job from its new `effective_from`, and the old schedule's fires find another schedule_no at the claim.

    floor F ........ crash ... edit at E        old schedule: every 10 s
       |   x   x   x   |   x   |                times after F and before E become rows: queued by an
       claimed         never fired              edit, skipped by a pause or a delete

Everything fired up to the floor (F, X_F) has met the claim. T and F compare with fire times, effective_from
with scheduled times. Misfire policy applies only above the stored T: what lies below was published, and
a pool that lags is not a missed time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.ids import fire_id
from shardwheel.job import Misfire
from shardwheel.schedule import jitter_of
from shardwheel.store.arrays import Bigints, Uuid, Uuids
from shardwheel.store.job_row import JobRow
from shardwheel.store.sql import sql

# Above this many times a change writes one row for all of them.
MOST_SETTLED = 1_000


class OpenTime(NamedTuple):
    """A time of the old schedule that may not have met the claim."""

    scheduled_ms: int
    due_ms: int


def settle_old_schedule(
    conn: Connection[Any], old: JobRow, until_ms: int, *, now_ms: int, skip_as: str | None
) -> int:
    """Put the old schedule's open times before `until_ms` on record: queued, or skipped with the reason
    `skip_as`. Call it after the row was changed (`until_ms` is its new effective_from). Returns how many."""
    fired_through_ms, floor_ms, floor_xid = _floor(conn, old.partition)
    open_times = _open_times(old, until_ms, floor_ms, floor_xid)
    first = list(islice(open_times, MOST_SETTLED + 1))
    if len(first) > MOST_SETTLED:
        return _settle_as_one(conn, old, first[0].scheduled_ms, until_ms, skip_as)
    missed = _missed(old, first, fired_through_ms, now_ms) if skip_as is None else frozenset()
    if first:
        conn.execute(sql("settle_old"), _rows(old, first, skip_as, missed), prepare=False)
    return len(first)


def _floor(conn: Connection[Any], partition: int) -> tuple[int, int, int]:
    ((fired_through_ms, floor_ms, floor_xid),) = conn.execute(sql("floor"), {"partition": partition})
    return fired_through_ms, floor_ms, floor_xid


def _open_times(old: JobRow, until_ms: int, floor_ms: int, floor_xid: int) -> Iterator[OpenTime]:
    # A schedule state younger than the floor's horizon has no claimed times that the floor knows of.
    known_to_floor = old.schedule_xid < floor_xid
    after_ms = old.effective_from_ms - 1
    if known_to_floor:
        after_ms = max(after_ms, floor_ms - old.jitter_ms - 1)
    timing = old.timing
    for scheduled_ms in timing.times_between(after_ms, until_ms - 1):
        next_ms = timing.schedule.next_after(scheduled_ms, timing.anchor_ms) if old.jitter_ms else None
        due_ms = scheduled_ms + jitter_of(old.job_id, scheduled_ms, old.jitter_ms, next_ms)
        if due_ms > floor_ms or not known_to_floor:
            yield OpenTime(scheduled_ms, due_ms)


def _missed(old: JobRow, times: list[OpenTime], fired_through_ms: int, now_ms: int) -> frozenset[int]:
    """Those that the misfire policy skips: never published, and past their grace."""
    missed = [
        time.scheduled_ms
        for time in times
        if time.due_ms > fired_through_ms and time.due_ms < now_ms - old.misfire_grace_ms
    ]
    if old.misfire == Misfire.FIRE_ALL:
        window_ms = now_ms - old.catchup_window_ms
        return frozenset(scheduled_ms for scheduled_ms in missed if scheduled_ms < window_ms)
    return frozenset(missed if old.misfire == Misfire.SKIP else missed[:-1])


def _rows(old: JobRow, times: list[OpenTime], skip_as: str | None, missed: frozenset[int]) -> dict[str, Any]:
    reasons = [skip_as or ("misfire" if time.scheduled_ms in missed else "") for time in times]
    return {
        "job_id": Uuid(old.job_id),
        "tenant_id": old.tenant_id,
        "partition": old.partition,
        "schedule_no": old.schedule_no,
        "execution_ids": Uuids([fire_id(old.job_id, old.partition, time.scheduled_ms) for time in times]),
        "states": ["skipped" if reason else "queued" for reason in reasons],
        "reasons": reasons,
        "scheduled": Bigints([time.scheduled_ms for time in times]),
        "due": Bigints([time.due_ms for time in times]),
    }


def _settle_as_one(
    conn: Connection[Any], old: JobRow, first_ms: int, until_ms: int, skip_as: str | None
) -> int:
    timing = old.timing
    count = timing.count_between(first_ms - 1, until_ms - 1)
    span = {
        "job_id": Uuid(old.job_id),
        "tenant_id": old.tenant_id,
        "partition": old.partition,
        "schedule_no": old.schedule_no,
        "first_ms": first_ms,
        "last_ms": until_ms - 1,
        "count": count,
    }
    if skip_as is not None:
        conn.execute(sql("add_skip_range"), span | {"reason": skip_as})
    else:
        conn.execute(
            sql("add_work_row"),
            span
            | {
                "origin": "settled",
                "schedule": old.schedule,
                "anchor_ms": old.anchor_ms,
                "jitter_ms": old.jitter_ms,
                "misfire": old.misfire,
                "requeue_skipped": False,
                "request_id": None,
            },
        )
    return count
