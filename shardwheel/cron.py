"""A cron expression as bit masks, and the search for its next wall time in them.

`croniter` takes 80 µs and more for a step, which 20,000 fires a second can't pay. So an expression is
compiled once (see `expression`) into

- a mask of 1,440 bits, one a minute of the day: hours and minutes together;
- a mask of 60 bits for the seconds;
- a mask of up to 31 bits for the days of each *shape* of month. Which days of a month match depends on
  which month of the year it is, its length and its first weekday alone, so there are 13 × 7 shapes
  (February has two lengths), whatever the year. `L`, `W`, `#` and the rule that joins day of month and
  day of week are all gone after this.

A step is then: find the month, shift its mask to today, take the lowest bit; the same for the minute.

Example: `30 9 * * 1-5` has one bit in its minute mask (9 × 60 + 30 = 570); in a month that begins on a
Saturday its day mask is …1111100 from the right, so from the 1st the next day is the 3rd.

Knows nothing of zones: wall time in, wall time out, in seconds since 1968 (see `zone`). Never reads a
clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import Final

from shardwheel.times import DAY_S

# Later than any day of the calendar: what a search answers when there is nothing more.
_NEVER_DAY: Final = 1 << 24

# --- The calendar: where each month begins, and its shape -----------------------------------------

_FIRST_YEAR: Final = 1968
_LAST_YEAR: Final = 2201
# The lengths of the months, and as a thirteenth that of February in a leap year.
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 29)
_LEAP_FEBRUARY: Final = 12
# A month's number guessed from a day's: 4,800 months have 146,097 days. It errs by one month at most.
_MONTHS_IN_CYCLE: Final = 4_800
_DAYS_IN_CYCLE: Final = 146_097


def _calendar() -> tuple[list[int], bytes]:
    starts, shapes, day = [], bytearray(), 0
    for year in range(_FIRST_YEAR, _LAST_YEAR + 1):
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        for month in range(12):
            kind = _LEAP_FEBRUARY if leap and month == 1 else month
            starts.append(day)
            shapes.append(kind * 7 + day % 7)
            day += _LENGTHS[kind]
    return [*starts, day], bytes(shapes)


# The day each month begins on (and the one after the last ends on), and each month's shape.
_MONTH_STARTS, _MONTH_SHAPES = _calendar()


# --- Stepping -------------------------------------------------------------------------------------


class Cron:
    """A compiled expression. `follows_elapsed_time` tells whether DST changes leave it alone."""

    __slots__ = ("_days", "_first_s", "_last_s", "_minutes", "_seconds", "follows_elapsed_time")

    def __init__(self, minutes: int, seconds: int, days: tuple[int, ...], follows_elapsed_time: bool) -> None:
        self._minutes = minutes
        self._seconds = seconds
        self._days = days
        self._first_s = _lowest(minutes) * 60 + _lowest(seconds)
        self._last_s = (minutes.bit_length() - 1) * 60 + seconds.bit_length() - 1
        self.follows_elapsed_time = follows_elapsed_time

    def next_wall(self, wall_s: int) -> int:
        """The first matching wall time at or after this one; far beyond the calendar when there is none."""
        day = wall_s // DAY_S
        month = day * _MONTHS_IN_CYCLE // _DAYS_IN_CYCLE
        if _MONTH_STARTS[month] > day:
            month -= 1
        elif _MONTH_STARTS[month + 1] <= day:
            month += 1
        days = self._days[_MONTH_SHAPES[month]] >> day - _MONTH_STARTS[month]
        if days & 1:
            second = wall_s - day * DAY_S
            if second <= self._first_s:
                return day * DAY_S + self._first_s
            if second <= self._last_s:
                return day * DAY_S + self._next_second(second)
            days -= 1
        if days:
            return (day + (days & -days).bit_length() - 1) * DAY_S + self._first_s
        return self._first_day_after(month) * DAY_S + self._first_s

    def _next_second(self, second: int) -> int:
        """The first matching second of the day at or after this one, which is not past the last."""
        minute = second // 60
        minutes = self._minutes >> minute
        if minutes & 1:
            seconds = self._seconds >> second - minute * 60
            if seconds:
                return second + (seconds & -seconds).bit_length() - 1
            minutes -= 1
        return (minute + (minutes & -minutes).bit_length() - 1) * 60 + self._first_s % 60

    def count_before(self, wall_s: int) -> int:
        """How many wall times match from the beginning of the calendar to before this one."""
        day, second = divmod(wall_s, DAY_S)
        minute, second = divmod(second, 60)
        month = bisect_right(_MONTH_STARTS, day) - 1
        this_month, today = self._days[_MONTH_SHAPES[month]], day - _MONTH_STARTS[month]
        days = _days_before(self._days)[month] + (this_month & (1 << today) - 1).bit_count()
        minutes = days * self._minutes.bit_count()
        if not this_month >> today & 1:
            return minutes * self._seconds.bit_count()
        minutes += (self._minutes & (1 << minute) - 1).bit_count()
        this_minute = self._seconds & (1 << second) - 1 if self._minutes >> minute & 1 else 0
        return minutes * self._seconds.bit_count() + this_minute.bit_count()

    def _first_day_after(self, month: int) -> int:
        for later in range(month + 1, len(_MONTH_SHAPES)):
            days = self._days[_MONTH_SHAPES[later]]
            if days:
                return _MONTH_STARTS[later] + _lowest(days)
        return _NEVER_DAY


@lru_cache(maxsize=64)
def _days_before(days: tuple[int, ...]) -> list[int]:
    """For each month, how many days match before it. Counting is rare (max_runs, skipped ranges), so few
    expressions have theirs kept."""
    return list(accumulate((days[shape].bit_count() for shape in _MONTH_SHAPES), initial=0))


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def day_masks(months: int, mask_of: Callable[[int, int], int]) -> tuple[int, ...]:
    """A mask for each shape of month: `mask_of(first weekday, length)` in the months of the year that
    the mask `months` has, nothing in the others."""
    of_length = {length: [mask_of(weekday, length) for weekday in range(7)] for length in set(_LENGTHS)}
    of_year = months | (months >> 1 & 1) << _LEAP_FEBRUARY
    return tuple(
        mask if of_year >> kind & 1 else 0
        for kind, length in enumerate(_LENGTHS)
        for mask in of_length[length]
    )
