"""Times and durations as the outside world writes them, in milliseconds.

Never guesses: a time without a zone is refused, since whose nine o'clock it is must not depend on who
reads it. Every refusal is a `UsageError` with field, problem and remedy. Never reads a clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, NoReturn

from shardwheel.errors import UsageError

DAY_S: Final = 86_400
END_MS: Final = 7_289_654_400_000  # 2201-01-01T00:00:00Z: there are no times from here on

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(?:\d{1,12}(?:\.\d{1,9})?(?:ms|s|m|h|d))+", re.ASCII)
_DURATION_PART: Final = re.compile(r"([\d.]+)(ms|s|m|h|d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def refuse(field: str, problem: str, remedy: str) -> NoReturn:
    raise UsageError(f"{field}: {problem}; {remedy}", field=field)


def parse_duration(value: object, field: str, *, least_ms: int = 0, most_ms: int = END_MS) -> int:
    """Milliseconds of "30s", "1.5s", "5m", "1h30m", "2d", "250ms", or of a number of seconds."""
    remedy = "write a number of seconds, or a text such as '30s', '1.5s', '5m', '1h', '2d'"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        refuse(field, "is not a duration", remedy)
    if isinstance(value, str):
        text = value.strip()
        if len(text) > 64 or not _DURATION.fullmatch(text):
            refuse(field, f"{text[:64]!r} is not a duration", remedy)
        parts = _DURATION_PART.findall(text)
        exact_ms = sum((Decimal(number) * _UNIT_MS[unit] for number, unit in parts), Decimal())
    else:
        exact_ms = Decimal(repr(value)) * 1000
    if exact_ms.is_nan() or not least_ms <= exact_ms <= most_ms:
        refuse(field, f"{value!r:.64} is out of range", f"choose {least_ms} ms to {most_ms // 1000} s")
    return int(exact_ms.to_integral_value())


def moment_of(time_ms: int) -> datetime:
    """Milliseconds since 1970 as a time in UTC."""
    return _EPOCH + time_ms * _MILLISECOND


def parse_time(value: object, field: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time with a zone, rounded up: never early."""
    remedy = "write it as in 2026-11-20T09:00:00Z or 2026-11-20T10:00:00+01:00"
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            refuse(field, f"{value!r:.64} is not a time in ISO 8601", remedy)
    if not isinstance(value, datetime):
        refuse(field, "is not a time", remedy)
    if value.utcoffset() is None:
        refuse(field, f"{value.isoformat()!r} has no zone", remedy)
    time_ms = -((_EPOCH - value) // _MILLISECOND)
    if not 0 <= time_ms < END_MS:
        refuse(field, f"{value.isoformat()!r} is out of range", "choose a time from 1970 to 2200")
    return time_ms
