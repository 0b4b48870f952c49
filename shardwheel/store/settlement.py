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
from typing import Any

from psycopg import Connection

from shardwheel.ids import fire_id
from shardwheel.missed import Policy, Span, fates, fire_time, first_due_after
from shardwheel.store.arrays import Bigints, Uuid, Uuids
from shardwheel.store.job_row import JobRow
from shardwheel.store.sql import sql

# Above this many times of a kind a change writes one row for all of them.
MOST_SETTLED = 1_000


def settle_old_schedule(
    conn: Connection[Any], old: JobRow, until_ms: int, *, now_ms: int, skip_as: str | None
) -> int:
    """Put the old schedule's open times before `until_ms` on record: queued, or skipped with the reason
    `skip_as`. Call it after the row was changed (`until_ms` is its new effective_from). Returns how many."""
    fired_through_ms, floor_ms, floor_xid = _floor(conn, old.partition)
    first_ms = old.effective_from_ms
    # A state of the schedule younger than the floor's horizon has no claimed times that the floor knows of.
    if old.schedule_xid < floor_xid:
        first_ms = _first_due_after(old, floor_ms, first_ms, until_ms)
    spans = (
        [Span(first_ms, until_ms, skip_as)]
        if skip_as
        else _fates(old, first_ms, until_ms, fired_through_ms, now_ms)
    )
    return sum(_record(conn, old, span) for span in spans)


def _floor(conn: Connection[Any], partition: int) -> tuple[int, int, int]:
    ((fired_through_ms, floor_ms, floor_xid),) = conn.execute(sql("floor"), {"partition": partition})
    return fired_through_ms, floor_ms, floor_xid


def _fates(old: JobRow, first_ms: int, until_ms: int, fired_through_ms: int, now_ms: int) -> Iterator[Span]:
    """Published ones run; of the others the job's policy decides."""
    missed_ms = _first_due_after(old, fired_through_ms, first_ms, until_ms)
    yield Span(first_ms, missed_ms)
    policy = Policy(old.misfire, old.misfire_grace_ms, old.catchup_window_ms)
    yield from fates(old.timing, old.job_id, old.jitter_ms, policy, missed_ms, until_ms, now_ms)


def _first_due_after(old: JobRow, threshold_ms: int, first_ms: int, until_ms: int) -> int:
    return first_due_after(old.timing, old.job_id, old.jitter_ms, threshold_ms, first_ms, until_ms)


def _record(conn: Connection[Any], old: JobRow, span: Span) -> int:
    count = old.timing.count_between(span.first_ms - 1, span.until_ms - 1)
    if count > MOST_SETTLED:
        _record_as_one(conn, old, span, count)
    elif count:
        times = list(old.timing.times_between(span.first_ms - 1, span.until_ms - 1))
        conn.execute(sql("settle_old"), _rows(old, times, span.skip_as), prepare=False)
    return count


def _rows(old: JobRow, times: list[int], skip_as: str | None) -> dict[str, Any]:
    return {
        "job_id": Uuid(old.job_id),
        "tenant_id": old.tenant_id,
        "partition": old.partition,
        "schedule_no": old.schedule_no,
        "state": "skipped" if skip_as else "queued",
        "reason": skip_as,
        "execution_ids": Uuids([fire_id(old.job_id, old.partition, time_ms) for time_ms in times]),
        "scheduled": Bigints(times),
        "due": Bigints([_due_ms(old, time_ms) for time_ms in times]),
    }


def _due_ms(old: JobRow, scheduled_ms: int) -> int:
    return fire_time(old.timing.schedule, old.job_id, scheduled_ms, old.anchor_ms or 0, old.jitter_ms)


def _record_as_one(conn: Connection[Any], old: JobRow, span: Span, count: int) -> None:
    values = {
        "job_id": Uuid(old.job_id),
        "tenant_id": old.tenant_id,
        "partition": old.partition,
        "schedule_no": old.schedule_no,
        "first_ms": span.first_ms,
        "last_ms": span.until_ms - 1,
        "count": count,
    }
    if span.skip_as is not None:
        conn.execute(sql("add_skip_range"), values | {"reason": span.skip_as})
        return
    of_schedule = {
        "origin": "settled",
        "schedule": old.schedule,
        "anchor_ms": old.anchor_ms,
        "jitter_ms": old.jitter_ms,
        "requeue_skipped": False,
        "request_id": None,
    }
    conn.execute(sql("add_work_row"), values | of_schedule)
