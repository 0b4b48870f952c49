"""About fifty answers of cron, worked out by hand and frozen: what a user may rely on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from shardwheel.schedule import Definition, schedule_from

UTC, BERLIN, NEW_YORK, HOWE = "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
SKIP, LAST, BOTH = {"dst_gap": "skip"}, {"dst_fold": "last"}, {"dst_fold": "both"}

FROZEN: list[tuple[str, str, dict[str, Any], str, str]] = [
    # Plain times.
    ("0 9 * * *", UTC, {}, "2026-11-18T08:59:59.999Z", "2026-11-18T09:00Z"),
    ("0 9 * * *", UTC, {}, "2026-11-18T09:00Z", "2026-11-19T09:00Z"),
    ("0 9 * * *", UTC, {}, "2026-11-18T09:00:00.001Z", "2026-11-19T09:00Z"),
    ("0 9 * * 1-5", BERLIN, {}, "2026-11-20T08:00Z", "2026-11-23T08:00Z"),
    ("0 9 * * MON-FRI", NEW_YORK, {}, "2026-11-20T14:00Z", "2026-11-23T14:00Z"),
    ("*/5 * * * *", UTC, {}, "2026-11-18T09:57Z", "2026-11-18T10:00Z"),
    ("*/7 * * * *", UTC, {}, "2026-11-18T09:56Z", "2026-11-18T10:00Z"),
    ("5/20 * * * *", UTC, {}, "2026-11-18T09:05Z", "2026-11-18T09:25Z"),
    ("10-20/5,50 8 * * *", UTC, {}, "2026-11-18T08:20Z", "2026-11-18T08:50Z"),
    ("0 22-2 * * *", UTC, {}, "2026-11-18T23:00Z", "2026-11-19T00:00Z"),
    ("30 9 * * *", "Asia/Kolkata", {}, "2026-11-18T03:59Z", "2026-11-18T04:00Z"),
    # Seconds come first.
    ("15 0 9 * * *", UTC, {}, "2026-11-18T09:00Z", "2026-11-18T09:00:15Z"),
    ("*/20 * * * * *", UTC, {}, "2026-11-18T23:59:40Z", "2026-11-19T00:00Z"),
    ("30 */10 8 * * 7", UTC, {}, "2026-11-22T08:50:30Z", "2026-11-29T08:00:30Z"),
    # Months and years carry.
    ("0 9 * * *", UTC, {}, "2026-01-30T09:00Z", "2026-01-31T09:00Z"),
    ("0 9 * * *", UTC, {}, "2026-01-31T09:00Z", "2026-02-01T09:00Z"),
    ("0 9 * * *", UTC, {}, "2027-05-01T09:00Z", "2027-05-02T09:00Z"),
    ("59 23 31 12 *", UTC, {}, "2026-12-31T23:58Z", "2026-12-31T23:59Z"),
    ("59 23 31 12 *", UTC, {}, "2026-12-31T23:59Z", "2027-12-31T23:59Z"),
    ("0 0 31 * *", UTC, {}, "2026-03-31T00:00Z", "2026-05-31T00:00Z"),
    ("0 0 30 * *", UTC, {}, "2027-01-30T00:00Z", "2027-03-30T00:00Z"),
    ("0 0 29 2 *", UTC, {}, "2026-01-01T00:00Z", "2028-02-29T00:00Z"),
    ("0 0 29 2 *", UTC, {}, "2096-02-29T00:00Z", "2104-02-29T00:00Z"),
    ("0 0 1 JAN,JUL *", UTC, {}, "2026-01-01T00:00Z", "2026-07-01T00:00Z"),
    ("0 0 * NOV-FEB *", UTC, {}, "2026-02-28T00:00Z", "2026-11-01T00:00Z"),
    # L, W, #.
    ("0 0 L * *", UTC, {}, "2028-02-01T00:00Z", "2028-02-29T00:00Z"),
    ("0 0 L * *", UTC, {}, "2027-02-01T00:00Z", "2027-02-28T00:00Z"),
    ("0 0 L,15 * *", UTC, {}, "2026-11-15T00:00Z", "2026-11-30T00:00Z"),
    ("0 0 15W * *", UTC, {}, "2026-11-01T00:00Z", "2026-11-16T00:00Z"),  # the 15th is a Sunday
    ("0 0 14W * *", UTC, {}, "2026-11-01T00:00Z", "2026-11-13T00:00Z"),  # the 14th is a Saturday
    ("0 0 1W 8 *", UTC, {}, "2026-07-01T00:00Z", "2026-08-03T00:00Z"),  # a Saturday, but never back to July
    ("0 0 LW * *", UTC, {}, "2027-01-01T00:00Z", "2027-01-29T00:00Z"),  # the 31st is a Sunday
    ("0 0 31W 2 *", UTC, {}, "2027-01-01T00:00Z", "2027-02-26T00:00Z"),  # February ends on Sunday the 28th
    ("0 0 * * 5#3", UTC, {}, "2026-11-01T00:00Z", "2026-11-20T00:00Z"),
    ("0 0 * * FRI#5", UTC, {}, "2026-11-01T00:00Z", "2027-01-29T00:00Z"),
    ("0 0 * * 5L", UTC, {}, "2026-11-01T00:00Z", "2026-11-27T00:00Z"),
    ("0 0 * * L5", UTC, {}, "2026-11-27T00:00Z", "2026-12-25T00:00Z"),
    ("0 0 * * 5L", UTC, {}, "2027-01-01T00:00Z", "2027-01-29T00:00Z"),  # the fifth
    # Day of month and day of week: either, unless one starts with a star; then both.
    ("0 0 13 * 5", UTC, {}, "2026-11-18T00:00Z", "2026-11-20T00:00Z"),
    ("0 0 13 * 5", UTC, {}, "2026-12-12T00:00Z", "2026-12-13T00:00Z"),
    (
        "0 0 */13 * 5",
        UTC,
        {},
        "2026-11-18T00:00Z",
        "2026-11-27T00:00Z",
    ),  # the 1st, 14th or 27th, and a Friday
    ("0 0 1-31 * 5", UTC, {}, "2026-11-18T00:00Z", "2026-11-19T00:00Z"),
    ("0 0 ? * 5", UTC, {}, "2026-11-18T00:00Z", "2026-11-20T00:00Z"),
    ("0 0 15W * MON", UTC, {}, "2026-11-18T00:00Z", "2026-11-23T00:00Z"),
    # Aliases.
    ("@hourly", UTC, {}, "2026-11-18T09:00Z", "2026-11-18T10:00Z"),
    ("@weekly", UTC, {}, "2026-11-18T00:00Z", "2026-11-22T00:00Z"),
    ("@yearly", BERLIN, {}, "2026-11-18T00:00Z", "2026-12-31T23:00Z"),
    # A gap: 02:00 to 03:00 is missing in Berlin on 29 March 2026.
    ("30 2 * * *", BERLIN, {}, "2026-03-28T12:00Z", "2026-03-29T01:00Z"),
    ("30 2 * * *", BERLIN, SKIP, "2026-03-28T12:00Z", "2026-03-30T00:30Z"),
    ("15,45 2 * * *", BERLIN, {}, "2026-03-29T01:00Z", "2026-03-30T00:15Z"),  # the gap's times are one
    ("*/30 * * * *", BERLIN, {}, "2026-03-29T00:30Z", "2026-03-29T01:00Z"),
    ("*/15 2 * * *", BERLIN, {}, "2026-03-28T12:00Z", "2026-03-30T00:00Z"),  # a rhythm has no times in a gap
    (
        "0 0 * * *",
        "America/Santiago",
        {},
        "2026-09-05T12:00Z",
        "2026-09-06T04:00Z",
    ),  # the day begins at 01:00
    ("15 2 * * *", HOWE, {}, "2026-10-03T00:00Z", "2026-10-03T15:30Z"),  # half an hour is missing
    # A fold: 02:00 to 03:00 comes twice in Berlin on 25 October 2026.
    ("30 2 * * *", BERLIN, {}, "2026-10-24T12:00Z", "2026-10-25T00:30Z"),
    ("30 2 * * *", BERLIN, {}, "2026-10-25T00:30Z", "2026-10-26T01:30Z"),
    ("30 2 * * *", BERLIN, LAST, "2026-10-24T12:00Z", "2026-10-25T01:30Z"),
    ("30 2 * * *", BERLIN, BOTH, "2026-10-25T00:30Z", "2026-10-25T01:30Z"),
    ("30 2 25 10 *", BERLIN, BOTH, "2026-10-25T00:30Z", "2026-10-25T01:30Z"),
    ("0 * * * *", BERLIN, {}, "2026-10-25T00:00Z", "2026-10-25T01:00Z"),  # a rhythm goes on
    ("45 1 * * *", NEW_YORK, LAST, "2026-11-01T04:00Z", "2026-11-01T06:45Z"),
    # A day that Samoa left out altogether: its times came at once when the next one began.
    ("0 9 * * *", "Pacific/Apia", {}, "2011-12-29T19:00Z", "2011-12-30T10:00Z"),
    ("0 9 * * *", "Pacific/Apia", SKIP, "2011-12-29T19:00Z", "2011-12-30T19:00Z"),
]


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(("cron", "zone", "policy", "after", "expected"), FROZEN)
def test_frozen_answers(cron: str, zone: str, policy: dict[str, Any], after: str, expected: str) -> None:
    schedule = schedule_from(Definition(cron=cron, time_zone=zone, **policy))
    assert schedule.next_after(ms(after)) == ms(expected)
