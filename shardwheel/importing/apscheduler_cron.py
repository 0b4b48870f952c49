"""APScheduler's cron fields as a cron expression.

They differ in three ways: Monday is 0 there, all fields must match (cron: day of month or day of week), and
fields below the least one that is given begin at their minimum. `week` and `year` have no place in cron.

    day_of_week="0-4", hour=9  →  "0 9 * * 1,2,3,4,5"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shardwheel.importing.python_source import UnreadableError

FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ORDINALS = {"1st": "1", "2nd": "2", "3rd": "3", "4th": "4", "5th": "5"}
_LEAST = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
_POSITION = re.compile(r"(1st|2nd|3rd|4th|5th|last)\s+(\w{3})\w*", re.IGNORECASE)
_WEEKDAY_ITEM = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")


def cron_of_fields(given: Mapping[str, Any]) -> str:
    """Five fields, or six if the seconds matter."""
    known = {name: str(value).strip().lower() for name, value in given.items() if value is not None}
    for name in ("year", "week"):
        if known.get(name, "*") != "*":
            raise UnreadableError(f"{name}={known[name]}: cron has no such field; use start_at and end_at")
    words = _with_defaults(known)
    day, weekday = _days(words["day"], words["day_of_week"])
    cron = f"{words['minute']} {words['hour']} {day} {words['month']} {weekday}"
    return cron if words["second"] == "0" else f"{words['second']} {cron}"


def _with_defaults(known: dict[str, str]) -> dict[str, str]:
    """What is above the least field given is any; what is below is the least."""
    places = [index for index, name in enumerate(FIELDS) if name in known]
    lowest = max(places, default=-1)
    return {
        name: known.get(name, "*" if index < lowest else _LEAST.get(name, "*"))
        for index, name in enumerate(FIELDS)
    }


def _days(day: str, weekday: str) -> tuple[str, str]:
    position = _POSITION.fullmatch(day)
    if position:
        nth = position[1].lower()
        number = str((_weekday(position[2]) + 1) % 7)
        day, spelled = "*", f"{number}L" if nth == "last" else f"{number}#{_ORDINALS[nth]}"
        if weekday != "*":
            raise UnreadableError(f"day={position[0]} with day_of_week={weekday}: choose one of them")
        return day, spelled
    if day == "last":
        day = "L"
    elif "last" in day or _POSITION.search(day):
        raise UnreadableError(f"day={day}: cron has no such list; make two jobs")
    if weekday == "*":
        return day, "*"
    if day[0] != "*":
        raise UnreadableError(
            f"day={day} with day_of_week={weekday}: APScheduler wants both to match, cron takes either; "
            "choose one of them, and let the handler look at the other"
        )
    return day, _weekdays(weekday)


def _weekdays(text: str) -> str:
    """Each day by its number in cron: its week begins with Sunday, APScheduler's with Monday."""
    found: set[int] = set()
    for item in text.split(","):
        match = _WEEKDAY_ITEM.fullmatch(item.strip())
        if match is None:
            raise UnreadableError(f"day_of_week={item}: is no day of the week")
        first = 0 if match[1] == "*" else _weekday(match[1])
        last = 6 if match[1] == "*" or (match[3] and not match[2]) else _weekday(match[2] or match[1])
        if last < first:
            raise UnreadableError(f"day_of_week={item}: ends before it begins; write two ranges")
        found.update((day + 1) % 7 for day in range(first, last + 1, int(match[3] or 1) or 1))
    return "*" if len(found) == 7 else ",".join(str(day) for day in sorted(found))


def _weekday(word: str) -> int:
    if word.isdecimal() and int(word) <= 6:
        return int(word)
    if word[:3].lower() in _WEEKDAYS:
        return _WEEKDAYS.index(word[:3].lower())
    raise UnreadableError(f"day_of_week={word}: is no day of the week; 0 is Monday there")
