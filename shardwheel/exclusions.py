"""Dates on which a schedule has no times, as stretches of time in the schedule's own zone.

A run that a gap shifts past midnight counts for the date that the wall clock shows when it runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import date

from shardwheel.times import DAY_S
from shardwheel.zone import wall_clock, wall_day


class Exclusions:
    """Looked up by time; the dates must be in order and each there once."""

    __slots__ = ("_ends_ms", "_starts_ms")

    def __init__(self, dates: Sequence[date], time_zone: str) -> None:
        clock = wall_clock(time_zone, "shift", "first")
        self._starts_ms = [clock.utc_of(wall_day(day) * DAY_S) * 1000 for day in dates]
        self._ends_ms = [clock.utc_of((wall_day(day) + 1) * DAY_S) * 1000 for day in dates]

    def end_around(self, time_ms: int) -> int | None:
        """When the excluded date that this time falls on is over; None when it falls on none."""
        index = bisect_right(self._starts_ms, time_ms) - 1
        return self._ends_ms[index] if index >= 0 and time_ms < self._ends_ms[index] else None

    def within(self, after_ms: int, through_ms: int) -> Iterator[tuple[int, int]]:
        """The excluded stretches (start, end; the end is outside) that touch after < time <= through."""
        first = bisect_right(self._ends_ms, after_ms + 1)
        last = bisect_right(self._starts_ms, through_ms)
        return zip(self._starts_ms[first:last], self._ends_ms[first:last], strict=True)
