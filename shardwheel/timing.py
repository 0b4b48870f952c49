"""A job's own timing: a shared schedule with the job's anchor and bounds, and how it is read from a post.

`parse_schedule` checks the posted fields and refuses, with field, problem and remedy, what is wrong,
what would never fire, and what a kind of schedule would ignore in silence. Never reads a clock: `now_ms`
is passed in.

`max_runs` becomes a last time, the k-th from the moment the schedule takes effect, so that a tick needs
no count. Only the store knows that moment: `PostedTiming.timing_from` takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Final, NamedTuple, TypeVar, get_args

import msgspec

from shardwheel.schedule import Definition, Schedule, schedule_from
from shardwheel.times import END_MS, parse_duration, parse_time, refuse
from shardwheel.zone import DstFold, DstGap, zone_of

MOST_RUNS: Final = 1_000_000_000
MOST_EXCLUDED: Final = 366
SHORTEST_INTERVAL_MS: Final = 10
LONGEST_JITTER_MS: Final = 86_400_000

Word = TypeVar("Word", bound=str)


class Timing(NamedTuple):
    """When one job runs: `start_ms <= time <= last_ms`, None for no bound. The shard keeps the parts in
    columns; whoever holds only one job holds this."""

    schedule: Schedule
    anchor_ms: int = 0
    start_ms: int | None = None
    last_ms: int | None = None

    def next_after(self, after_ms: int) -> int | None:
        return next_within(self.schedule, after_ms, self.anchor_ms, self.start_ms, self.last_ms)

    def times_between(self, after_ms: int, through_ms: int) -> Iterator[int]:
        """The times with after_ms < time <= through_ms, in order, within the job's bounds."""
        return self.schedule.times_between(*self._within(after_ms, through_ms), self.anchor_ms)

    def count_between(self, after_ms: int, through_ms: int) -> int:
        after_ms, through_ms = self._within(after_ms, through_ms)
        if through_ms <= after_ms:  # The span lies outside the bounds: counting backwards would be negative.
            return 0
        return self.schedule.count_between(after_ms, through_ms, self.anchor_ms)

    def _within(self, after_ms: int, through_ms: int) -> tuple[int, int]:
        if self.start_ms is not None and after_ms < self.start_ms:
            after_ms = self.start_ms - 1
        if self.last_ms is not None and through_ms > self.last_ms:
            through_ms = self.last_ms
        return after_ms, through_ms


def next_within(
    schedule: Schedule, after_ms: int, anchor_ms: int, start_ms: int | None, last_ms: int | None
) -> int | None:
    """The first time strictly after this one, within a job's bounds (both included)."""
    if start_ms is not None and after_ms < start_ms:
        after_ms = start_ms - 1
    next_ms = schedule.next_after(after_ms, anchor_ms)
    if next_ms is None or (last_ms is not None and next_ms > last_ms):
        return None
    return next_ms


class PostedTiming(NamedTuple):
    """A job's timing as posted and checked. `max_runs` waits for the moment it counts from."""

    schedule: Schedule
    anchor_ms: int
    start_ms: int | None
    end_ms: int | None
    max_runs: int | None
    jitter_ms: int

    def timing_from(self, effective_from_ms: int, runs_before: int = 0) -> Timing:
        """The timing once the schedule takes effect. `runs_before`: times of former schedules since the
        job's creation, which count against `max_runs`."""
        last_ms = self.end_ms
        if self.max_runs is not None:
            limit_ms = self._last_of(self.max_runs - runs_before, effective_from_ms)
            last_ms = limit_ms if last_ms is None else min(last_ms, limit_ms)
        return Timing(self.schedule, self.anchor_ms, self.start_ms, last_ms)

    def _last_of(self, runs: int, effective_from_ms: int) -> int:
        if runs <= 0:
            return effective_from_ms - 1
        first_ms = max(effective_from_ms, self.start_ms or 0)
        last_ms = self.schedule.nth_after(first_ms - 1, runs, self.anchor_ms)
        return END_MS - 1 if last_ms is None else last_ms


# --- From a post --------------------------------------------------------------------------------------


def parse_schedule(
    *,
    now_ms: int,
    cron: object = None,
    every: object = None,
    run_at: object = None,
    delay: object = None,
    parents: object = None,
    time_zone: object = "UTC",
    dst_gap: object = "shift",
    dst_fold: object = "first",
    exclude: object = (),
    start_at: object = None,
    end_at: object = None,
    max_runs: object = None,
    jitter_s: object = 0,
) -> PostedTiming:
    """Check the posted fields, each as it came from JSON. With neither a schedule nor parents a job runs
    once, now; with parents it has no times of its own."""
    kinds = {"cron": cron, "every": every, "run_at": run_at, "delay": delay, "parents": parents or None}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) > 1:
        refuse(given[1], f"is given together with {given[0]}", f"give one of {', '.join(kinds)}")
    dst = Definition(
        time_zone=_zone(time_zone),
        dst_gap=_one_of(dst_gap, "dst_gap", get_args(DstGap)),
        dst_fold=_one_of(dst_fold, "dst_fold", get_args(DstFold)),
        exclude=_dates(exclude),
    )
    jitter_ms = parse_duration(jitter_s, "jitter_s", most_ms=LONGEST_JITTER_MS)
    if cron is None and every is None:
        _refuse_bounds(start_at=start_at, end_at=end_at, max_runs=max_runs, exclude=exclude or None)
        if parents:
            return PostedTiming(schedule_from(Definition(never=True)), 0, None, None, None, jitter_ms)
        at_ms = _after(now_ms, delay) if run_at is None else parse_time(run_at, "run_at")
        return PostedTiming(schedule_from(Definition()), at_ms, None, None, None, jitter_ms)
    start_ms = None if start_at is None else parse_time(start_at, "start_at")
    end_ms = None if end_at is None else parse_time(end_at, "end_at")
    if every is None:
        schedule, anchor_ms = _cron(cron, dst), 0
    else:
        schedule, anchor_ms, start_ms = _every(every, dst, now_ms, start_ms)
    posted = PostedTiming(schedule, anchor_ms, start_ms, end_ms, _runs(max_runs), jitter_ms)
    _check_that_it_fires(posted, now_ms)
    return posted


def _cron(cron: object, dst: Definition) -> Schedule:
    if not isinstance(cron, str):
        refuse("cron", "is not a text", "write an expression such as '0 9 * * 1-5'")
    return schedule_from(msgspec.structs.replace(dst, cron=cron))


def _every(every: object, dst: Definition, now_ms: int, start_ms: int | None) -> tuple[Schedule, int, int]:
    """The schedule, what it counts from, and its first time: `start_at`, or else one interval from now."""
    every_ms = parse_duration(every, "every", least_ms=SHORTEST_INTERVAL_MS)
    zone = dst.time_zone if dst.exclude else "UTC"
    schedule = schedule_from(Definition(every_ms=every_ms, time_zone=zone, exclude=dst.exclude))
    return (schedule, now_ms, now_ms + every_ms) if start_ms is None else (schedule, start_ms, start_ms)


def _after(now_ms: int, delay: object) -> int:
    return now_ms + (0 if delay is None else parse_duration(delay, "delay", most_ms=END_MS - 1 - now_ms))


def _refuse_bounds(**bounds: object) -> None:
    for name, value in bounds.items():
        if value is not None:
            refuse(name, "belongs to a schedule that repeats", "drop it, or give cron or every")


def _check_that_it_fires(posted: PostedTiming, now_ms: int) -> None:
    kind = posted.schedule.kind
    first_ms = posted._replace(end_ms=None, max_runs=None).timing_from(now_ms).next_after(now_ms - 1)
    if first_ms is None:
        refuse(kind, "has no time left before the year 2201", "choose times that come sooner")
    if posted.end_ms is not None and first_ms > posted.end_ms:
        refuse("end_at", "comes before the first time of the schedule", "choose a later one")


def _dates(value: object) -> tuple[date, ...]:
    remedy = "write a list of dates such as ['2026-12-25']"
    if isinstance(value, str) or not isinstance(value, Sequence):
        refuse("exclude", "is not a list", remedy)
    if len(value) > MOST_EXCLUDED:
        refuse("exclude", f"has {len(value)} dates", f"give at most {MOST_EXCLUDED}")
    return tuple(_date(item, remedy) for item in value)


def _date(value: object, remedy: str) -> date:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            refuse("exclude", f"{value!r:.64} is not a date", remedy)
    if not isinstance(value, date) or isinstance(value, datetime) or not 1970 <= value.year <= 2200:
        refuse("exclude", f"{value!r:.64} is not a date from 1970 to 2200", remedy)
    return value


def _runs(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RUNS:
        refuse("max_runs", f"{value!r:.64} is not a number of runs", f"choose 1 to {MOST_RUNS}")
    return value


def _zone(value: object) -> str:
    if not isinstance(value, str):
        refuse("time_zone", "is not a text", "write an IANA name such as 'Europe/Berlin'")
    zone_of(value)
    return value


def _one_of(value: object, field: str, words: tuple[Word, ...]) -> Word:
    known = [word for word in words if word == value]
    if not known:
        refuse(field, f"{value!r:.64} is unknown", f"choose one of {', '.join(words)}")
    return known[0]
