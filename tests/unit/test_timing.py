"""A job's own bounds around its schedule: start, end and the number of its runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from shardwheel.errors import UsageError
from shardwheel.schedule import Definition, schedule_from
from shardwheel.times import END_MS
from shardwheel.timing import PostedTiming, Timing, next_within, parse_schedule


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


NOW_MS = ms("2026-11-18T12:00Z")
MINUTELY = schedule_from(Definition(every_ms=60_000))


def parse(**fields: Any) -> PostedTiming:
    return parse_schedule(now_ms=NOW_MS, **fields)


# --- Bounds -----------------------------------------------------------------------------------------


def test_both_bounds_belong_to_the_job() -> None:
    timing = Timing(MINUTELY, anchor_ms=0, start_ms=120_000, last_ms=240_000)
    assert timing.next_after(0) == 120_000
    assert timing.next_after(180_000) == 240_000
    assert timing.next_after(240_000) is None
    assert list(timing.times_between(0, 10**9)) == [120_000, 180_000, 240_000]
    assert timing.count_between(0, 10**9) == 3
    assert list(timing.times_between(120_000, 180_000)) == [180_000]


def test_without_bounds_there_is_only_the_schedule() -> None:
    assert next_within(MINUTELY, 59_999, 0, None, None) == 60_000


def test_max_runs_is_the_kth_time_from_when_the_schedule_takes_effect() -> None:
    posted = parse(cron="0 9 * * *", max_runs=3)
    assert posted.timing_from(ms("2026-11-18T12:00Z")).last_ms == ms("2026-11-21T09:00Z")
    assert posted.timing_from(ms("2026-11-19T09:00Z")).last_ms == ms("2026-11-21T09:00Z")
    assert posted.timing_from(ms("2026-11-19T09:00:00.001Z")).last_ms == ms("2026-11-22T09:00Z")


def test_runs_of_former_schedules_count() -> None:
    posted, from_ms = parse(cron="0 9 * * *", max_runs=3), ms("2026-11-18T12:00Z")
    assert posted.timing_from(from_ms, runs_before=2).last_ms == ms("2026-11-19T09:00Z")
    assert posted.timing_from(from_ms, runs_before=3).next_after(from_ms - 1) is None
    assert posted.timing_from(from_ms, runs_before=9).next_after(from_ms - 1) is None


def test_the_earlier_of_end_and_max_runs_counts() -> None:
    many = parse(cron="0 9 * * *", max_runs=300, end_at="2026-11-20T09:00:00Z")
    assert many.timing_from(NOW_MS).last_ms == ms("2026-11-20T09:00Z")
    few = parse(cron="0 9 * * *", max_runs=1, end_at="2026-11-25T00:00:00Z")
    assert few.timing_from(NOW_MS).last_ms == ms("2026-11-19T09:00Z")


def test_max_runs_counts_from_the_start() -> None:
    posted = parse(cron="0 9 * * *", max_runs=2, start_at="2027-01-01T00:00:00Z")
    assert posted.timing_from(NOW_MS).last_ms == ms("2027-01-02T09:00Z")


def test_more_runs_than_there_are_times_is_no_bound() -> None:
    assert parse(cron="@yearly", max_runs=1_000).timing_from(NOW_MS).last_ms == END_MS - 1


# --- From a post ----------------------------------------------------------------------------------------


def test_with_nothing_given_it_runs_once_now() -> None:
    posted = parse()
    assert (posted.schedule.kind, posted.anchor_ms) == ("once", NOW_MS)


def test_parents_leave_it_without_times_of_its_own() -> None:
    assert parse(parents=["a job"]).schedule.kind == "none"
    assert parse(parents=[]).schedule.kind == "once"


def test_a_once_by_time_and_by_delay() -> None:
    assert parse(run_at="2026-11-20T09:00:00Z").anchor_ms == ms("2026-11-20T09:00Z")
    assert parse(run_at="1999-01-01T00:00:00Z").anchor_ms == ms("1999-01-01T00:00Z")  # the past is allowed
    assert parse(delay="1.5s").anchor_ms == NOW_MS + 1_500
    assert parse(delay=0).anchor_ms == NOW_MS


def test_all_onces_share_one_schedule_whatever_their_zone() -> None:
    assert parse(delay=1).schedule is parse(run_at="2030-01-01T00:00:00Z", time_zone="Asia/Tokyo").schedule


def test_an_interval_counts_from_now_and_first_runs_one_interval_later() -> None:
    timing = parse(every="30s").timing_from(NOW_MS)
    assert timing.next_after(NOW_MS - 1) == NOW_MS + 30_000


def test_an_interval_with_a_start_counts_from_it_and_runs_then() -> None:
    start_ms = ms("2027-01-01T00:00Z")
    timing = parse(every="7m", start_at="2027-01-01T00:00:00Z").timing_from(NOW_MS)
    assert list(timing.times_between(NOW_MS, start_ms + 420_000)) == [start_ms, start_ms + 420_000]


def test_an_interval_has_a_zone_only_for_its_excluded_dates() -> None:
    plain = parse(every="1h", time_zone="Asia/Tokyo", dst_fold="both")
    assert plain.schedule.text == '{"every_ms":3600000}'
    excluding = parse(every="1h", time_zone="Asia/Tokyo", exclude=["2026-12-25"])
    assert excluding.schedule.text == '{"every_ms":3600000,"time_zone":"Asia/Tokyo","exclude":["2026-12-25"]}'


def test_a_cron_with_everything() -> None:
    posted = parse(
        cron="0 9 * * mon-fri",
        time_zone="Europe/Berlin",
        dst_gap="skip",
        dst_fold="last",
        exclude=["2026-12-25"],
        start_at="2026-12-01T00:00:00Z",
        end_at="2027-12-01T00:00:00Z",
        max_runs=100,
        jitter_s=2.5,
    )
    assert posted.schedule.text == (
        '{"cron":"0 9 * * MON-FRI","time_zone":"Europe/Berlin","dst_gap":"skip","dst_fold":"last",'
        '"exclude":["2026-12-25"]}'
    )
    assert posted[1:] == (0, ms("2026-12-01T00:00Z"), ms("2027-12-01T00:00Z"), 100, 2_500)
    assert posted.timing_from(NOW_MS).next_after(NOW_MS) == ms("2026-12-01T08:00Z")


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"cron": "* * * * *", "every": "1m"}, "every", "is given together with cron"),
        ({"run_at": "2026-11-20T09:00:00Z", "delay": 1}, "delay", "is given together with run_at"),
        ({"cron": "@daily", "parents": ["a job"]}, "parents", "is given together with cron"),
        ({"cron": 5}, "cron", "is not a text"),
        ({"cron": "0 0 30 2 *"}, "cron", "never fires"),
        ({"cron": "@daily", "time_zone": "Mars/Olympus"}, "time_zone", "there is no zone"),
        ({"delay": 1, "time_zone": "Mars/Olympus"}, "time_zone", "there is no zone"),
        ({"cron": "@daily", "time_zone": 1}, "time_zone", "is not a text"),
        ({"cron": "@daily", "dst_gap": "jump"}, "dst_gap", "'jump' is unknown; choose one of shift, skip"),
        ({"cron": "@daily", "dst_fold": []}, "dst_fold", "is unknown; choose one of first, last, both"),
        ({"cron": "@daily", "exclude": "2026-12-25"}, "exclude", "is not a list"),
        ({"cron": "@daily", "exclude": ["Christmas"]}, "exclude", "'Christmas' is not a date"),
        ({"cron": "@daily", "exclude": [20261225]}, "exclude", "is not a date from 1970 to 2200"),
        ({"cron": "@daily", "exclude": ["1812-12-25"]}, "exclude", "is not a date from 1970 to 2200"),
        ({"cron": "@daily", "exclude": ["2026-12-25"] * 367}, "exclude", "has 367 dates; give at most 366"),
        ({"cron": "@daily", "max_runs": 0}, "max_runs", "choose 1 to"),
        ({"cron": "@daily", "max_runs": True}, "max_runs", "choose 1 to"),
        ({"cron": "@daily", "jitter_s": -1}, "jitter_s", "out of range"),
        ({"cron": "@daily", "jitter_s": 90_000}, "jitter_s", "out of range"),
        ({"cron": "@daily", "start_at": "2027-01-01T00:00:00"}, "start_at", "has no zone"),
        ({"cron": "@daily", "end_at": "2026-11-18T13:00:00Z"}, "end_at", "before the first time"),
        ({"cron": "@daily", "end_at": "2020-01-01T00:00:00Z"}, "end_at", "before the first time"),
        (
            {"cron": "@yearly", "start_at": "2200-06-01T00:00:00Z"},
            "cron",
            "no time left before the year 2201",
        ),
        (
            {"every": "200d", "start_at": "2200-12-31T00:00:00Z", "exclude": ["2200-12-31"]},
            "every",
            "no time",
        ),
        ({"every": "70000d"}, "every", "no time left"),
        ({"every": "9ms"}, "every", "out of range; choose 10 ms to"),
        ({"every": 0}, "every", "out of range"),
        ({"delay": "70000d"}, "delay", "out of range"),
        ({"delay": ""}, "delay", "is not a duration"),
        ({"run_at": "2300-01-01T00:00:00Z"}, "run_at", "choose a time from 1970 to 2200"),
        ({"delay": 1, "max_runs": 5}, "max_runs", "belongs to a schedule that repeats"),
        ({"start_at": "2027-01-01T00:00:00Z"}, "start_at", "belongs to a schedule that repeats"),
        ({"parents": ["a job"], "exclude": ["2026-12-25"]}, "exclude", "belongs to a schedule that repeats"),
    ],
)
def test_what_is_refused_and_why(fields: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"^{field}: .*{problem}") as refusal:
        parse(**fields)
    assert refusal.value.field == field


def test_a_span_outside_the_bounds_holds_no_time() -> None:
    """Counted backwards it was negative once, and a shard that caught such a job up crashed for ever."""
    timing = Timing(schedule_from(Definition(every_ms=1_000)), anchor_ms=0, start_ms=5_000, last_ms=9_000)
    for after_ms, through_ms in ((20_000, 30_000), (0, 2_000), (8_000, 3_000)):
        assert timing.count_between(after_ms, through_ms) == 0
        assert list(timing.times_between(after_ms, through_ms)) == []
    assert timing.count_between(0, 30_000) == 5
