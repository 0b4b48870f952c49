"""Times and durations as people write them: what is read, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from shardwheel.errors import UsageError
from shardwheel.times import END_MS, parse_duration, parse_time


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("30s", 30_000),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        (" 1m ", 60_000),
        (30, 30_000),
        (0, 0),
        (0.25, 250),
        (1.1, 1_100),
    ],
)
def test_durations(value: object, expected_ms: int) -> None:
    assert parse_duration(value, "every") == expected_ms


NO_TEXTS = ["", "5", "s", "1x", "-5s", "1 s", "1e3s", "1h-", "٣s", "9" * 20 + "s", "1s" * 40]
NO_NUMBERS: list[object] = [-1, float("nan"), float("inf"), 1e300, 10**40, True, None, [], {"s": 1}]


@pytest.mark.parametrize("value", [*NO_TEXTS, *NO_NUMBERS])
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(UsageError, match=r"^delay: ") as refusal:
        parse_duration(value, "delay")
    assert refusal.value.field == "delay"


def test_a_duration_keeps_its_bounds() -> None:
    assert parse_duration("10ms", "every", least_ms=10) == 10
    with pytest.raises(UsageError, match="out of range; choose 10 ms to 60 s"):
        parse_duration("9ms", "every", least_ms=10, most_ms=60_000)
    with pytest.raises(UsageError, match="out of range"):
        parse_duration(61, "every", least_ms=10, most_ms=60_000)


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-20T09:00:00Z", 1_795_165_200_000),
        ("2026-11-20T10:00:00+01:00", 1_795_165_200_000),
        ("2026-11-20T09:00:00.001Z", 1_795_165_200_001),
        ("2026-11-20T09:00:00.0001Z", 1_795_165_200_001),  # never early
        ("2200-12-31T23:59:59.999Z", END_MS - 1),
        (datetime(2026, 11, 20, 9, tzinfo=UTC), 1_795_165_200_000),
        (datetime(2026, 11, 20, 10, tzinfo=timezone(timedelta(hours=1))), 1_795_165_200_000),
    ],
)
def test_times(value: object, expected_ms: int) -> None:
    assert parse_time(value, "run_at") == expected_ms


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2026-11-20T09:00:00", "has no zone; write it as in 2026-11-20T09:00:00Z"),
        ("2026-11-20", "has no zone"),
        ("tomorrow", "is not a time in ISO 8601"),
        ("1969-12-31T23:59:59Z", "is out of range; choose a time from 1970 to 2200"),
        ("2201-01-01T00:00:00Z", "is out of range"),
        ("0001-01-01T00:00:00+23:59", "is out of range"),
        (1_795_165_200, "is not a time"),
        (True, "is not a time"),
        (None, "is not a time"),
    ],
)
def test_what_is_no_time(value: object, problem: str) -> None:
    with pytest.raises(UsageError, match=f"^run_at: .*{problem}") as refusal:
        parse_time(value, "run_at")
    assert refusal.value.field == "run_at"
