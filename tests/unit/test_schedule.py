"""The times of a schedule: of cron, interval, once and none, to the end of the calendar."""

from __future__ import annotations

import gc
import weakref
from datetime import date, datetime

import pytest

from shardwheel.errors import UsageError
from shardwheel.schedule import Definition, Schedule, jitter_of, schedule_from, schedule_of
from shardwheel.times import END_MS

JOB = bytes(range(16))
DAY_MS = 86_400_000
GOLDEN_JITTERS = [28225, 45493, 3809, 36930, 15885, 1787, 30827, 20895, 53614, 48533]
ONCE, NEVER = schedule_from(Definition()), schedule_from(Definition(never=True))


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def every(interval_ms: int, *exclude: date, time_zone: str = "UTC") -> Schedule:
    return schedule_from(Definition(every_ms=interval_ms, exclude=exclude, time_zone=time_zone))


# --- Kinds ------------------------------------------------------------------------------------------


def test_an_interval_is_anchored_whenever_one_looks() -> None:
    schedule = every(1_500)
    assert schedule.kind == "every"
    assert list(schedule.times_between(10_000, 14_500, anchor_ms=10_000)) == [11_500, 13_000, 14_500]
    assert schedule.next_after(9_999, anchor_ms=10_000) == 10_000
    assert schedule.next_after(1_000_000_001, anchor_ms=10_000) == 1_000_001_500


def test_a_once_is_its_anchor() -> None:
    assert ONCE.kind == "once"
    assert ONCE.next_after(4_999, anchor_ms=5_000) == 5_000
    assert ONCE.next_after(5_000, anchor_ms=5_000) is None
    assert ONCE.next_after(0, anchor_ms=END_MS) is None
    assert ONCE.nth_after(0, 2, anchor_ms=5_000) is None


def test_no_schedule_has_no_times() -> None:
    assert NEVER.kind == "none"
    assert NEVER.next_after(0) is None
    assert NEVER.count_between(0, END_MS) == 0


def test_nothing_is_scheduled_after_2200() -> None:
    yearly = schedule_from(Definition(cron="@yearly"))
    last_ms = ms("2200-01-01T00:00Z")
    assert yearly.next_after(last_ms - 1) == last_ms
    assert yearly.next_after(last_ms) is None
    assert yearly.next_after(END_MS + DAY_MS) is None
    assert yearly.nth_after(last_ms - 1, 2) is None
    assert every(DAY_MS).next_after(END_MS - DAY_MS) is None


def test_no_day_of_the_calendar_is_left_out_or_repeated() -> None:
    daily = schedule_from(Definition(cron="@daily"))
    for time_ms in range(0, END_MS - DAY_MS, DAY_MS):
        assert daily.next_after(time_ms) == time_ms + DAY_MS


def test_a_time_before_1970_is_asked_about_but_never_given() -> None:
    assert schedule_from(Definition(cron="@hourly")).next_after(-1) == 0
    assert schedule_from(Definition(cron="0 9 * * *", time_zone="America/New_York")).next_after(-1) == ms(
        "1970-01-01T14:00Z"
    )


def test_times_come_as_they_are_asked_for() -> None:
    times = schedule_from(Definition(cron="* * * * * *")).times_between(0, END_MS)
    assert [next(times), next(times)] == [1_000, 2_000]


# --- Excluded dates -----------------------------------------------------------------------------------


def test_excluded_dates_are_those_of_the_schedules_own_zone() -> None:
    christmas = (date(2026, 12, 25), date(2026, 12, 26))
    schedule = schedule_from(Definition(cron="0 22 * * *", time_zone="America/New_York", exclude=christmas))
    times = list(schedule.times_between(ms("2026-12-24T12:00Z"), ms("2026-12-29T00:00Z")))
    assert times == [ms("2026-12-25T03:00Z"), ms("2026-12-28T03:00Z")]


def test_an_interval_keeps_its_anchor_across_an_excluded_date() -> None:
    schedule = every(7 * 3_600_000, date(2026, 12, 25), time_zone="Europe/Berlin")
    anchor_ms = ms("2026-12-24T16:00Z")
    times = list(schedule.times_between(anchor_ms - 1, ms("2026-12-26T10:00Z"), anchor_ms))
    assert times == [anchor_ms, ms("2026-12-26T03:00Z"), ms("2026-12-26T10:00Z")]


def test_all_of_a_long_exclusion_is_passed_over() -> None:
    december = tuple(date(2026, 12, day) for day in range(1, 32))
    schedule = schedule_from(Definition(cron="*/5 * * * *", exclude=december))
    assert schedule.next_after(ms("2026-11-30T23:55Z")) == ms("2027-01-01T00:00Z")


def test_excluded_times_are_not_counted() -> None:
    schedule = schedule_from(Definition(cron="*/5 * * * *", exclude=(date(2026, 12, 25), date(2026, 12, 27))))
    eve_ms = ms("2026-12-24T23:50Z")
    assert schedule.count_between(eve_ms, ms("2026-12-28T00:10Z")) == 1 + 288 + 3
    assert schedule.count_between(ms("2026-12-25T12:00Z"), ms("2026-12-25T13:00Z")) == 0
    assert schedule.nth_after(eve_ms, 2) == ms("2026-12-26T00:00Z")
    assert schedule.nth_after(eve_ms, 290) == ms("2026-12-28T00:00Z")


def test_a_gaps_time_that_lands_on_a_regular_one_counts_once() -> None:
    schedule = schedule_from(Definition(cron="0 1-3 * * *", time_zone="Europe/Berlin"))
    midnight_ms, noon_ms = ms("2026-03-28T23:00Z"), ms("2026-03-29T10:00Z")
    assert list(schedule.times_between(midnight_ms, noon_ms)) == [
        ms("2026-03-29T00:00Z"),
        ms("2026-03-29T01:00Z"),
    ]
    assert schedule.count_between(midnight_ms, noon_ms) == 2


# --- Text and sharing -----------------------------------------------------------------------------------


def test_the_text_is_canonical_and_leads_back_to_the_same_object() -> None:
    first = schedule_from(
        Definition(cron=" 0 9  * * mon", exclude=(date(2027, 1, 1), date(2026, 1, 1), date(2027, 1, 1)))
    )
    assert first.text == '{"cron":"0 9 * * MON","exclude":["2026-01-01","2027-01-01"]}'
    assert schedule_of(first.text) is first
    assert schedule_from(first.definition) is first


def test_texts_of_each_kind_are_frozen() -> None:
    berlin = Definition(cron="@daily", time_zone="Europe/Berlin", dst_gap="skip", dst_fold="both")
    texts = [schedule.text for schedule in (schedule_from(berlin), every(30_000), ONCE, NEVER)]
    assert texts == [
        '{"cron":"@daily","time_zone":"Europe/Berlin","dst_gap":"skip","dst_fold":"both"}',
        '{"every_ms":30000}',
        "{}",
        '{"never":true}',
    ]


def test_a_schedule_is_shared_while_somebody_holds_it_and_goes_when_nobody_does() -> None:
    held, passing = schedule_of('{"every_ms":111}'), schedule_of('{"every_ms":112}')
    passed = weakref.ref(passing)
    schedule_of.cache_clear()  # as when thousands of others came by
    assert schedule_of('{"every_ms":111}') is held
    del passing
    gc.collect()
    assert passed() is None


@pytest.mark.parametrize("text", ["", "[]", '{"croon":"* * * * *"}', '{"cron":5}', '{"dst_gap":"jump"}'])
def test_a_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"schedule: .* can't be read"):
        schedule_of(text)


# --- Jitter -------------------------------------------------------------------------------------------


def test_golden_jitters() -> None:
    at_ms = ms("2026-11-20T09:00Z")
    jitters = [jitter_of(JOB, at_ms + hour * 3_600_000, 60_000, None) for hour in range(10)]
    assert jitters == GOLDEN_JITTERS


def test_jitter_is_off_by_default_and_smaller_than_the_distance_to_the_next_time() -> None:
    assert jitter_of(JOB, 1_000, 0, 2_000) == 0
    assert {jitter_of(JOB, at_ms, 60_000, at_ms + 3) for at_ms in range(100)} == {0, 1, 2}


def test_jitter_spreads_over_its_whole_range() -> None:
    jitters = [jitter_of(JOB, at_ms, 1_000, None) for at_ms in range(2_000)]
    assert min(jitters) < 10
    assert 990 <= max(jitters) < 1_000
    assert 480 < sum(jitters) / len(jitters) < 520
