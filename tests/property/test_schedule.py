"""What holds for every schedule, whatever its kind: order, counting, jitter, and that memory is no part
of the answer."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardwheel.schedule import Definition, jitter_of, schedule_from, schedule_of

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000  # 2026-01-01
CRONS = (
    "*/10 * * * *",
    "30 2 * * *",
    "0,45 1-3 * * *",
    "0 */2 * * *",
    "0 0 L * *",
    "0 9 13 * 5",
    "20 30 2 * * *",
)
ZONES = ("UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe")

dates = st.integers(0, 365).map(lambda days: date(2026, 1, 1) + timedelta(days=days))
definitions = st.builds(
    Definition,
    cron=st.sampled_from(CRONS),
    time_zone=st.sampled_from(ZONES),
    dst_gap=st.sampled_from(("shift", "skip")),
    dst_fold=st.sampled_from(("first", "last", "both")),
    exclude=st.lists(dates, max_size=3).map(tuple),
) | st.builds(
    Definition,
    every_ms=st.integers(7 * 60_000, 50 * HOUR_MS),
    time_zone=st.sampled_from(ZONES),
    exclude=st.lists(dates, max_size=3).map(tuple),
)
moments = st.integers(START_MS, START_MS + 365 * 24 * HOUR_MS)
# Around the changes of the clocks in our zones, where it matters.
nights = st.sampled_from(
    (1_774_742_400_000, 1_792_886_400_000, 1_788_652_800_000, 1_790_985_600_000)
).flatmap(lambda at_ms: st.integers(at_ms - 24 * HOUR_MS, at_ms + 24 * HOUR_MS))
spans = st.integers(0, 60 * HOUR_MS)
# No time limit of any kind: the machine may be busy.
careful = settings(
    derandomize=True,
    deadline=None,
    max_examples=200,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@careful
@given(definitions, moments | nights, spans, st.integers(0, 10**12))
def test_counting_and_the_nth_agree_with_going_through(
    definition: Definition, after_ms: int, span_ms: int, anchor_ms: int
) -> None:
    schedule = schedule_from(definition)
    times = list(schedule.times_between(after_ms, after_ms + span_ms, anchor_ms))
    assert all(after_ms < time_ms <= after_ms + span_ms for time_ms in times)
    assert sorted(set(times)) == times
    assert schedule.count_between(after_ms, after_ms + span_ms, anchor_ms) == len(times)
    for n in {1, len(times) // 2, len(times)} & set(range(1, len(times) + 1)):
        assert schedule.nth_after(after_ms, n, anchor_ms) == times[n - 1]


@careful
@given(definitions, st.lists(moments | nights, min_size=2, max_size=6))
def test_what_was_asked_before_does_not_change_the_answer(definition: Definition, asked: list[int]) -> None:
    shared = schedule_from(definition)
    answers = [shared.next_after(at_ms) for at_ms in asked]
    for at_ms, answer in zip(asked, answers, strict=True):
        fresh = type(shared)(shared.definition, shared.text)
        assert fresh.next_after(at_ms) == answer
    assert schedule_of(shared.text) is shared


@careful
@given(
    definitions,
    moments | nights,
    st.integers(1, 48 * HOUR_MS),
    st.binary(min_size=16, max_size=16),
)
def test_jitter_never_reorders(definition: Definition, after_ms: int, jitter_ms: int, job_id: bytes) -> None:
    schedule, fire_ms = schedule_from(definition), []
    for time_ms in schedule.times_between(after_ms, after_ms + 30 * HOUR_MS):
        jitter = jitter_of(job_id, time_ms, jitter_ms, schedule.next_after(time_ms))
        assert 0 <= jitter < jitter_ms
        fire_ms.append(time_ms + jitter)
    assert sorted(set(fire_ms)) == fire_ms


def test_the_nth_of_very_many_is_found_without_going_through_them() -> None:
    every_second = schedule_from(Definition(cron="* * * * * *", time_zone="Europe/Berlin"))
    assert every_second.nth_after(START_MS, 1_000_000_000) == START_MS + 1_000_000_000_000
    assert every_second.count_between(START_MS, START_MS + 1_000_000_000_000) == 1_000_000_000
