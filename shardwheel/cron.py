"""A cron expression compiled to bit masks, and the search for its next wall time in them.

`croniter` parses and validates; it takes 80 µs and more for a step, which 20,000 fires a second can't
pay. So an expression is compiled once:

- a mask of 1,440 bits, one a minute of the day: hours and minutes together;
- a mask of 60 bits for the seconds;
- a mask of up to 31 bits for the days of each *shape* of month. A month's days match by its first
  weekday and its length alone, so there are 7 × 4 shapes, whatever the year: `L`, `W`, `#` and the rule
  that joins day-of-month and day-of-week are all gone after this.

A step is then: find the month, shift its mask to today, take the lowest bit; the same for the minute.

Example: `30 9 * * 1-5` has one bit in its minute mask (9 × 60 + 30 = 570); in a month that begins on a
Saturday its day mask begins …1111100, so from the 1st the next day is the 3rd.

Knows nothing of zones: wall time in, wall time out, in seconds since 1968 (see `zone`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from croniter import CroniterError, croniter

from shardwheel.errors import UsageError

DAY_S: Final = 86_400
LONGEST_EXPRESSION: Final = 256
# Later than any day of the calendar: what a search answers when there is nothing more.
_NEVER_DAY: Final = 1 << 24
NEVER_S: Final = _NEVER_DAY * DAY_S

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")
_SIZES: Final = (60, 24, 31, 12, 7)
_MONTH_NAMES: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAY_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_NUMBERS: Final = {name: str(number) for number, name in enumerate(_DAY_NAMES)} | {
    name: str(number) for number, name in enumerate(_MONTH_NAMES, 1)
}

# --- The calendar: where each month begins, and its shape -----------------------------------------

_FIRST_YEAR: Final = 1968
_LAST_YEAR: Final = 2201
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# A month's number guessed from a day's: 4,800 months have 146,097 days. It errs by one month at most.
_MONTHS_IN_CYCLE: Final = 4_800
_DAYS_IN_CYCLE: Final = 146_097


def _calendar() -> tuple[list[int], bytes]:
    starts, shapes, day = [], bytearray(), 0
    for year in range(_FIRST_YEAR, _LAST_YEAR + 1):
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        for month, length in enumerate(_LENGTHS):
            length += leap and month == 1
            starts.append(day)
            shapes.append(day % 7 * 4 + length - 28)
            day += length
    return [*starts, day], bytes(shapes)


# The day each month begins on (and the one after the last ends on); weekday × 4 + length − 28.
_MONTH_STARTS, _MONTH_SHAPES = _calendar()
_MONTHS: Final = len(_MONTH_SHAPES)


# --- Stepping -------------------------------------------------------------------------------------


class Cron:
    """A compiled expression. `follows_elapsed_time` tells whether DST changes leave it alone."""

    __slots__ = (
        "_days",
        "_first_s",
        "_minutes",
        "_months",
        "_seconds",
        "_whole_minutes",
        "follows_elapsed_time",
    )

    def __init__(
        self, minutes: int, seconds: int, days: tuple[int, ...], months: int, follows_elapsed_time: bool
    ) -> None:
        self._minutes = minutes
        self._seconds = seconds
        self._days = days
        self._months = months
        self._whole_minutes = seconds == 1
        self._first_s = _lowest(minutes) * 60 + _lowest(seconds)
        self.follows_elapsed_time = follows_elapsed_time

    def next_wall(self, wall_s: int) -> int:
        """The first matching wall time at or after this one; `NEVER_S` or more when there is none."""
        today, second = divmod(wall_s, DAY_S)
        day = self._next_day(today)
        if day == today:
            second = self._next_second(second)
            if second < DAY_S:
                return today * DAY_S + second
            day = self._next_day(today + 1)
        return day * DAY_S + self._first_s

    def _next_second(self, second: int) -> int:
        """The first matching second of a matching day, at or after this one; `DAY_S` when none is left."""
        if self._whole_minutes:
            minute = (second + 59) // 60
        else:
            minute, second = divmod(second, 60)
            seconds = self._seconds >> second
            if seconds and self._minutes >> minute & 1:
                return minute * 60 + second + (seconds & -seconds).bit_length() - 1
            minute += 1
        minutes = self._minutes >> minute
        if not minutes:
            return DAY_S
        return (minute + (minutes & -minutes).bit_length() - 1) * 60 + self._first_s % 60

    def _next_day(self, day: int) -> int:
        """The first matching day at or after this one."""
        month = day * _MONTHS_IN_CYCLE // _DAYS_IN_CYCLE
        if _MONTH_STARTS[month] > day:
            month -= 1
        elif _MONTH_STARTS[month + 1] <= day:
            month += 1
        start = _MONTH_STARTS[month]
        if self._months >> month % 12 & 1:
            days = self._days[_MONTH_SHAPES[month]] >> day - start
            if days:
                return day + (days & -days).bit_length() - 1
        return self._first_day_after(month)

    def _first_day_after(self, month: int) -> int:
        for later in range(month + 1, _MONTHS):
            if self._months >> later % 12 & 1:
                days = self._days[_MONTH_SHAPES[later]]
                if days:
                    return _MONTH_STARTS[later] + _lowest(days)
        return _NEVER_DAY


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


# --- Compiling ------------------------------------------------------------------------------------


def canonical_expression(expression: str) -> str:
    """One spelling per expression as far as is cheap: single spaces, upper case (an alias: lower)."""
    words = expression.split()
    joined = " ".join(words)
    return joined.lower() if joined.startswith("@") else joined.upper()


@lru_cache(maxsize=1024)
def compile_cron(expression: str) -> Cron:
    """Compile a canonical expression; a `UsageError` names the field that is wrong and why."""
    if len(expression) > LONGEST_EXPRESSION:
        raise _refused(
            f"the expression has {len(expression)} characters; at most {LONGEST_EXPRESSION} are allowed"
        )
    if not expression.isascii():
        raise _refused("the expression has characters that cron does not know; use plain ASCII")
    words = ALIASES.get(expression, expression).split()
    if len(words) not in (5, 6):
        raise _refused(
            f"{expression!r} has {len(words)} fields; write 5 (minute, hour, day of month, month, day of"
            " week) or 6 (second first), or @hourly, @daily, @weekly, @monthly, @yearly"
        )
    # croniter reads day 0 and weekday 7 differently once there is a sixth field, so it never sees one.
    seconds = _parse([words.pop(0), "*", "*", "*", "*"], "second").expanded[0] if len(words) == 6 else [0]
    parsed = _parse(words, None)
    minutes, hours, days, months, weekdays = parsed.expanded
    hour_mask, minute_mask = _mask(hours, 24), _mask(minutes, 60)
    minute_of_day_mask = sum(minute_mask << hour * 60 for hour in range(24) if hour_mask >> hour & 1)
    month_mask = _mask([month if month == "*" else month - 1 for month in months], 12)
    day_rule = _DayRule(words, days, parsed.nearest_weekday, weekdays, parsed.nth_weekday_of_month)
    shapes = tuple(day_rule.mask(shape // 4, 28 + shape % 4) for shape in range(28))
    cron = Cron(
        minute_of_day_mask, _mask(seconds, 60), shapes, month_mask, words[0][0] == "*" or words[1][0] == "*"
    )
    if cron.next_wall(0) >= NEVER_S:
        raise _refused(
            f"{expression!r} never fires: day of month {words[2]} with day of week {words[4]} does not occur"
            f" in month {words[3]}; choose a day that exists"
        )
    return cron


def _refused(problem: str) -> UsageError:
    return UsageError(f"cron: {problem}", field="cron")


def _mask(values: list[Any], size: int) -> int:
    return (1 << size) - 1 if "*" in values else sum(1 << value for value in set(values))


class _DayRule:
    """Which days of a month match: by day of month, by day of week, joined as Vixie cron joins them.

    If either field starts with a star, both must match; else one is enough. (So `*/2` with a weekday
    means both, in Vixie cron and here.)
    """

    def __init__(
        self,
        words: list[str],
        days: list[Any],
        nearest_weekdays: set[int],
        weekdays: list[Any],
        nth_weekdays: dict[int, set[Any]],
    ) -> None:
        self._both = words[2][0] in "*?" or words[4][0] in "*?"
        self._last_day = "l" in days
        self._nearest = nearest_weekdays
        self._days = (
            0
            if nearest_weekdays
            else _mask([day if day == "*" else day - 1 for day in days if day != "l"], 31)
        )
        self._weekdays = 0 if nth_weekdays else _mask(weekdays, 7)
        self._nth = nth_weekdays

    def mask(self, first_weekday: int, length: int) -> int:
        """Of a month that begins on this weekday (0: Monday): bit 0 is the 1st."""
        by_day = self._days & (1 << length) - 1
        if self._last_day:
            by_day |= 1 << length - 1
        for day in self._nearest:
            by_day |= 1 << _nearest_weekday(min(day, length), first_weekday, length) - 1
        by_weekday = sum(
            1 << day - 1 for day in range(1, length + 1) if self._weekday_matches(day, first_weekday, length)
        )
        return by_day & by_weekday if self._both else by_day | by_weekday

    def _weekday_matches(self, day: int, first_weekday: int, length: int) -> bool:
        weekday = (first_weekday + day) % 7  # 0: Sunday, as cron counts
        nth = self._nth.get(weekday, ())
        return (
            bool(self._weekdays >> weekday & 1) or (day + 6) // 7 in nth or ("l" in nth and day + 7 > length)
        )


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """`W`: the weekday nearest to this day, within the month."""
    weekday = (first_weekday + day - 1) % 7  # 0: Monday
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < length else day - 2
    return day


# --- Parsing: croniter, with what it reads in surprising ways refused or rewritten before ----------

_RANGE: Final = re.compile(r"^(\w+)-(\w+)(/\d+)?$")
_LAST_WEEKDAY: Final = re.compile(r"^([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)L$")


def _parse(words: list[str], only: str | None) -> croniter:
    """`only` names the field when a single one is of interest (the seconds, read as minutes)."""
    spelled = [
        ",".join(_spelled(item, field, index) for item in word.split(","))
        for index, (word, field) in enumerate(zip(words, (only,) * 5 if only else FIELDS, strict=True))
    ]
    try:
        parsed = croniter(" ".join(spelled), 0.0)
    except (CroniterError, ValueError, KeyError, TypeError):
        raise _refused(_blame(words, spelled, only)) from None
    plain = set(parsed.expanded[4]) - set(parsed.nth_weekday_of_month)
    if parsed.nth_weekday_of_month and plain:
        raise _refused(f"day of week {words[4]!r} mixes plain days with # or L; use two jobs")
    return parsed


def _blame(words: list[str], spelled: list[str], only: str | None) -> str:
    """Ask croniter for each field alone, to tell which one it refuses."""
    for index, word in enumerate(spelled):
        alone = ["*"] * 5
        alone[index] = word
        try:
            croniter(" ".join(alone), 0.0)
        except (CroniterError, ValueError, KeyError, TypeError):
            return f"{only or FIELDS[index]} {words[index]!r} is not valid"
    return f"{' '.join(words)!r} is not valid"


def _spelled(item: str, field: str | None, index: int) -> str:
    """One item of a field as croniter spells it, or a refusal."""
    if item[:1] in ("H", "R"):
        raise _refused(
            f"{field} {item!r} is random or hashed; write the value, or use jitter_s to spread load"
        )
    if index == 2 and item == "LW":
        return "31W"
    last = _LAST_WEEKDAY.match(item)
    if index == 4 and last:
        return "L" + str(int(_NUMBERS.get(last[1], last[1])) % 7)
    _, _, step = item.partition("/")
    if step.isdecimal() and int(step) > _SIZES[index]:
        raise _refused(f"{field} {item!r} steps over the whole field; for such an interval use `every`")
    bounds = _RANGE.match(item)
    if bounds:
        low, high = (_NUMBERS.get(bound, bound) for bound in bounds.group(1, 2))
        if low == high:
            raise _refused(f"{field} {item!r} is a range with equal ends; write {bounds[1]}")
        if bounds[3] and low.isdecimal() and high.isdecimal() and int(low) > int(high):
            raise _refused(f"{field} {item!r} is a step over a range that wraps; write two ranges")
    return item
