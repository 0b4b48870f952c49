"""The schedule of a posted job, checked: values out, or a `UsageError` with field, problem and remedy.

Never reads a clock (`now_ms` is passed in) and never guesses: a time without a zone is refused, since
whose nine o'clock it is must not depend on who reads it; so are fields that a kind of schedule would
ignore in silence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, NoReturn, TypeVar, get_args

from shardwheel.errors import UsageError
from shardwheel.schedule import END_MS, Definition, schedule_from
from shardwheel.timing import PostedTiming
from shardwheel.zone import DstFold, DstGap, zone_of

MOST_RUNS: Final = 1_000_000_000
MOST_EXCLUDED: Final = 366
SHORTEST_INTERVAL_MS: Final = 10
LONGEST_JITTER_MS: Final = 86_400_000

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(?:\d{1,12}(?:\.\d{1,9})?(?:ms|s|m|h|d))+", re.ASCII)
_DURATION_PART: Final = re.compile(r"([\d.]+)(ms|s|m|h|d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

Word = TypeVar("Word", bound=str)


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
        _refuse(given[1], f"is given together with {given[0]}", f"give one of {', '.join(kinds)}")
    jitter_ms = parse_duration(jitter_s, "jitter_s", most_ms=LONGEST_JITTER_MS)
    bounds = {"start_at": start_at, "end_at": end_at, "max_runs": max_runs, "exclude": exclude or None}
    if cron is None and every is None:
        for name, value in bounds.items():
            if value is not None:
                _refuse(name, "bounds a schedule that repeats", "drop it, or give cron or every")
        if parents:
            return PostedTiming(schedule_from(Definition(never=True)), 0, None, None, None, jitter_ms)
        at_ms = (
            now_ms + parse_duration(delay or 0, "delay") if run_at is None else parse_time(run_at, "run_at")
        )
        if at_ms >= END_MS:
            _refuse("delay", "ends after the year 2200", "choose a shorter one")
        return PostedTiming(schedule_from(Definition()), at_ms, None, None, None, jitter_ms)
    start_ms = None if start_at is None else parse_time(start_at, "start_at")
    end_ms = None if end_at is None else parse_time(end_at, "end_at")
    excluded = _dates(exclude)
    zone = _text(time_zone, "time_zone", "write an IANA name such as 'Europe/Berlin'")
    zone_of(zone)
    gap = _one_of(dst_gap, "dst_gap", get_args(DstGap))
    fold = _one_of(dst_fold, "dst_fold", get_args(DstFold))
    anchor_ms = 0
    if every is not None:
        every_ms = parse_duration(every, "every", least_ms=SHORTEST_INTERVAL_MS)
        definition = Definition(every_ms=every_ms, time_zone=zone if excluded else "UTC", exclude=excluded)
        anchor_ms = now_ms if start_ms is None else start_ms
        start_ms = now_ms + every_ms if start_ms is None else start_ms
    else:
        expression = _text(cron, "cron", "write an expression such as '0 9 * * 1-5'")
        definition = Definition(cron=expression, time_zone=zone, dst_gap=gap, dst_fold=fold, exclude=excluded)
    posted = PostedTiming(schedule_from(definition), anchor_ms, start_ms, end_ms, _runs(max_runs), jitter_ms)
    _check_that_it_fires(posted, now_ms)
    return posted


def _check_that_it_fires(posted: PostedTiming, now_ms: int) -> None:
    kind = posted.schedule.kind
    first_ms = posted._replace(end_ms=None, max_runs=None).timing_from(now_ms).next_after(now_ms - 1)
    if first_ms is None:
        _refuse(kind, "has no time left before the year 2201", "choose times that come sooner")
    if posted.end_ms is not None and first_ms > posted.end_ms:
        _refuse("end_at", "comes before the first time of the schedule", "choose a later one")


# --- Single fields ------------------------------------------------------------------------------------


def parse_duration(value: object, field: str, *, least_ms: int = 0, most_ms: int = END_MS) -> int:
    """Milliseconds of "30s", "1.5s", "5m", "1h30m", "2d", "250ms", or of a number of seconds."""
    remedy = "write a number of seconds, or a text such as '30s', '1.5s', '5m', '1h', '2d'"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        _refuse(field, "is not a duration", remedy)
    if isinstance(value, str):
        text = value.strip()
        if len(text) > 64 or not _DURATION.fullmatch(text):
            _refuse(field, f"{text[:64]!r} is not a duration", remedy)
        parts = _DURATION_PART.findall(text)
        exact_ms = sum((Decimal(number) * _UNIT_MS[unit] for number, unit in parts), Decimal())
    else:
        exact_ms = Decimal(repr(value)) * 1000
    if exact_ms.is_nan() or not least_ms <= exact_ms <= most_ms:
        _refuse(field, f"{value!r:.64} is out of range", f"choose {least_ms} ms to {most_ms // 1000} s")
    return int(exact_ms.to_integral_value())


def parse_time(value: object, field: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time with a zone, rounded up: never early."""
    remedy = "write it as in 2026-11-20T09:00:00Z or 2026-11-20T10:00:00+01:00"
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            _refuse(field, f"{value!r:.64} is not a time in ISO 8601", remedy)
    if not isinstance(value, datetime):
        _refuse(field, "is not a time", remedy)
    if value.utcoffset() is None:
        _refuse(field, f"{value.isoformat()!r} has no zone", remedy)
    time_ms = -((_EPOCH - value) // _MILLISECOND)
    if not 0 <= time_ms < END_MS:
        _refuse(field, f"{value.isoformat()!r} is out of range", "choose a time from 1970 to 2200")
    return time_ms


def _dates(value: object) -> tuple[date, ...]:
    remedy = "write a list of dates such as ['2026-12-25']"
    if isinstance(value, str) or not isinstance(value, Sequence):
        _refuse("exclude", "is not a list", remedy)
    if len(value) > MOST_EXCLUDED:
        _refuse("exclude", f"has {len(value)} dates", f"give at most {MOST_EXCLUDED}")
    return tuple(_date(item, remedy) for item in value)


def _date(value: object, remedy: str) -> date:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            _refuse("exclude", f"{value!r:.64} is not a date", remedy)
    if not isinstance(value, date) or isinstance(value, datetime) or not 1970 <= value.year <= 2200:
        _refuse("exclude", f"{value!r:.64} is not a date from 1970 to 2200", remedy)
    return value


def _runs(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RUNS:
        _refuse("max_runs", f"{value!r:.64} is not a number of runs", f"choose 1 to {MOST_RUNS}")
    return value


def _text(value: object, field: str, remedy: str) -> str:
    if not isinstance(value, str) or not value.strip():
        _refuse(field, "is not a text", remedy)
    return value


def _one_of(value: object, field: str, words: tuple[Word, ...]) -> Word:
    known = [word for word in words if word == value]
    if not known:
        _refuse(field, f"{value!r:.64} is unknown", f"choose one of {', '.join(words)}")
    return known[0]


def _refuse(field: str, problem: str, remedy: str) -> NoReturn:
    raise UsageError(f"{field}: {problem}; {remedy}", field=field)
