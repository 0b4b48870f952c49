"""Reading a cron expression: croniter parses and validates, and the result becomes the masks of `cron`.

Five fields (minute, hour, day of month, month, day of week), or six with the *second first*, as Quartz,
Spring and cronsim have it. Names, ranges, steps, lists, `?`, `L` and `LW`, `15W`, `5#3`, `5L` (or `L5`),
and @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually.

What croniter would read in a way that surprises is refused or spelled differently before it sees it:
random `R` and hashed `H`; `5-5`, which it takes for the whole field; a step over a range that wraps,
where it miscounts; a step longer than the field; a sixth field, with which it no longer knows weekday 7.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from croniter import CroniterError, croniter

from shardwheel.cron import Cron, day_masks
from shardwheel.errors import UsageError

LONGEST_EXPRESSION: Final = 256

_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")
_SIZES: Final = (60, 24, 31, 12, 7)
_ALLOWED: Final = ("0-59", "0-23", "1-31, L, LW or 15W", "1-12 or JAN-DEC", "0-7, SUN-SAT, 5#3 or 5L")
_MONTH_NAMES: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAY_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_NUMBERS: Final = {name: str(number) for number, name in enumerate(_DAY_NAMES)} | {
    name: str(number) for number, name in enumerate(_MONTH_NAMES, 1)
}
_RANGE: Final = re.compile(r"(\w+)-(\w+)(/\d+)?")
_LAST_WEEKDAY: Final = re.compile(r"([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)L")
# Bits 0, 7, 14, …: a week's mask times this is that week repeated, past the longest month.
_EVERY_SEVENTH: Final = sum(1 << 7 * week for week in range(6))


def canonical_expression(expression: str) -> str:
    """One spelling per expression as far as is cheap: single spaces, upper case (an alias: lower)."""
    joined = " ".join(expression.split())
    return joined.lower() if joined.startswith("@") else joined.upper()


@lru_cache(maxsize=1024)
def compile_cron(expression: str) -> Cron:
    """Compile an expression; a `UsageError` names the field that is wrong, and why."""
    seconds, words = _fields(canonical_expression(expression))
    minute_of_day_mask, days = _five_masks(*words)
    if not any(days):
        raise _refused(
            f"{expression!r} never fires: day of month {words[2]} with day of week {words[4]} does not occur"
            f" in month {words[3]}; choose a day that exists"
        )
    # As in Vixie cron: a star at the start of the minute or the hour asks for a rhythm, not for a time
    # of day, and a rhythm goes on through a change of the clocks.
    follows_elapsed_time = words[0][0] == "*" or words[1][0] == "*"
    return Cron(minute_of_day_mask, _second_mask(seconds), days, follows_elapsed_time)


# Apart from the second: jobs that are spread over the minute have the other five in common.
@lru_cache(maxsize=1024)
def _five_masks(*words: str) -> tuple[int, tuple[int, ...]]:
    """The minutes of a day, and the days."""
    parsed = _parse(list(words), _FIELDS)
    minutes, hours, _, months, _ = parsed.expanded
    hour_mask, minute_mask = _mask(hours, 24), _mask(minutes, 60)
    minute_of_day_mask = sum(minute_mask << hour * 60 for hour in range(24) if hour_mask >> hour & 1)
    return minute_of_day_mask, day_masks(_mask(months, 13) >> 1, _DayRule(list(words), parsed).mask)


@lru_cache(maxsize=128)
def _second_mask(seconds: str | None) -> int:
    """croniter never sees a sixth field: seconds are read alone, as minutes, which have the same range."""
    if seconds is None:
        return 1
    return _mask(_parse([seconds, "*", "*", "*", "*"], ("second", *_FIELDS[1:])).expanded[0], 60)


def _fields(expression: str) -> tuple[str | None, list[str]]:
    """The seconds, if there are any, and the five fields of every cron."""
    if len(expression) > LONGEST_EXPRESSION:
        raise _refused(
            f"the expression has {len(expression)} characters; at most {LONGEST_EXPRESSION} are allowed"
        )
    if not expression.isascii():
        raise _refused("the expression has characters that cron does not know; use plain ASCII")
    words = _ALIASES.get(expression, expression).split()
    if len(words) == 5:
        return None, words
    if len(words) == 6:
        return words[0], words[1:]
    raise _refused(
        f"{expression!r} has {len(words)} fields; write 5 (minute, hour, day of month, month, day of week)"
        f" or 6 (second first), or one of {', '.join(_ALIASES)}"
    )


def _refused(problem: str) -> UsageError:
    return UsageError(f"cron: {problem}", field="cron")


def _mask(values: list[Any], size: int) -> int:
    return (1 << size) - 1 if "*" in values else sum(1 << value for value in set(values))


class _DayRule:
    """Which days of a month match: by day of month, by day of week, joined as Vixie cron joins them.

    If either field starts with a star, both must match; else one is enough. (So `*/2` with a weekday
    means both, in Vixie cron and here.)
    """

    def __init__(self, words: list[str], parsed: croniter) -> None:
        days, weekdays = parsed.expanded[2], parsed.expanded[4]
        self._both = words[2][0] in "*?" or words[4][0] in "*?"
        self._last_day = "l" in days
        self._nearest: set[int] = parsed.nearest_weekday
        self._nth: dict[int, set[Any]] = parsed.nth_weekday_of_month
        self._days = 0 if self._nearest else _mask([day for day in days if day != "l"], 32) >> 1
        self._weekdays = 0 if self._nth else _mask(weekdays, 7) * _EVERY_SEVENTH

    def mask(self, first_weekday: int, length: int) -> int:
        """Of a month that begins on this weekday (0: Monday): bit 0 is the 1st."""
        by_day = self._days
        if self._last_day:
            by_day |= 1 << length - 1
        for day in self._nearest:
            by_day |= 1 << _nearest_weekday(min(day, length), first_weekday, length) - 1
        by_weekday = self._weekdays >> first_weekday + 1  # cron's week begins on Sunday
        for weekday, nth in self._nth.items():
            by_weekday |= _nth_weekdays((weekday - first_weekday - 1) % 7, nth, length)
        return (by_day & by_weekday if self._both else by_day | by_weekday) & (1 << length) - 1


def _nth_weekdays(first: int, nth: set[Any], length: int) -> int:
    """`#` and `L`: of the days first, first + 7, … (0: the 1st) the chosen ones; `"l"` is the last."""
    last = first + (length - 1 - first) // 7 * 7
    return sum(1 << day for day in {last if n == "l" else first + 7 * (n - 1) for n in nth})


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """`W`: the weekday nearest to this day, within the month."""
    weekday = (first_weekday + day - 1) % 7  # 0: Monday
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < length else day - 2
    return day


def _parse(words: list[str], fields: tuple[str, ...]) -> croniter:
    spelled = [
        ",".join(_spelled(item, fields[index], index) for item in word.split(","))
        for index, word in enumerate(words)
    ]
    # L and # stand in no weekday's name.
    if len({"#" in item or "L" in item for item in words[4].split(",")}) > 1:
        raise _refused(f"day of week {words[4]!r} mixes plain days with # or L; use two jobs")
    parsed = _croniter(spelled)
    if parsed is None:
        raise _refused(_blame(words, spelled, fields))
    return parsed


def _croniter(words: list[str]) -> croniter | None:
    try:
        return croniter(" ".join(words), 0.0)
    except (CroniterError, ValueError, KeyError, TypeError):
        return None


def _blame(words: list[str], spelled: list[str], fields: tuple[str, ...]) -> str:
    """Tell which field it is that croniter refuses: the first that it refuses alone."""
    for index, word in enumerate(spelled):
        if _croniter([*"*" * index, word, *"*" * (4 - index)]) is None:
            return (
                f"{fields[index]} {words[index]!r} is not valid; use {_ALLOWED[index]}, lists, ranges, steps"
            )
    return f"{' '.join(words)!r} is not valid; try its fields one by one"


def _spelled(item: str, field: str, index: int) -> str:
    """One item of a field as croniter spells it, or a refusal."""
    if item[:1] in ("H", "R"):
        raise _refused(f"{field} {item!r} is hashed or random; write the value, and jitter_s to spread load")
    if index == 2 and item == "LW":
        return "31W"
    last = _LAST_WEEKDAY.fullmatch(item)
    if index == 4 and last:
        return "L" + str(int(_NUMBERS.get(last[1], last[1])) % 7)
    _refuse_surprises(item, field, _SIZES[index])
    return item


def _refuse_surprises(item: str, field: str, size: int) -> None:
    step = item.partition("/")[2]
    if step.isdecimal() and int(step) > size:
        raise _refused(f"{field} {item!r} steps over the whole field; for such an interval use `every`")
    bounds = _RANGE.fullmatch(item)
    if bounds is None:
        return
    low, high = (_NUMBERS.get(bound, bound) for bound in bounds.group(1, 2))
    if low == high:
        raise _refused(f"{field} {item!r} is a range with equal ends; write {bounds[1]}")
    if bounds[3] and low.isdecimal() and high.isdecimal() and int(low) > int(high):
        raise _refused(f"{field} {item!r} is a step over a range that wraps; write two ranges")
