"""A holding: from entries to messages, at every stand, with every policy."""

from __future__ import annotations

from shardwheel.ids import fire_id
from shardwheel.ports import Message
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.wire import Fire, FireKind
from tests.unit.shard.entries import JOB_ID, NOON_MS, at, every, fires, once, waiting

NEW = at(Stand(0, 0))


def due(holding: Holding, now_ms: int) -> list[Fire]:
    out: list[Message] = []
    late: list[tuple[int, Message]] = []
    holding.due(now_ms, out, late)
    assert late == []
    return fires(out)


def caught_up(holding: Holding, now_ms: int) -> list[Fire]:
    late: list[tuple[int, Message]] = []
    holding.due(now_ms, [], late)
    return fires(message for _, message in late)


def make(stand_ms: int = NOON_MS - 1) -> Holding:
    return Holding(8, stand_ms)


def test_a_job_fires_at_each_of_its_times_and_a_once_leaves() -> None:
    holding = make()
    holding.take_jobs([every(10_000), once(NOON_MS + 5_000, job_id=b"o" * 16)], NEW)
    assert [fire.scheduled_ms for fire in due(holding, NOON_MS)] == [NOON_MS]
    assert due(holding, NOON_MS + 4_999) == []
    (fire,) = due(holding, NOON_MS + 5_000)
    assert (fire.job_id, fire.schedule_no, fire.attempt, fire.kind) == (b"o" * 16, 11, 1, FireKind.FIRE)
    assert fire.execution_id == fire_id(b"o" * 16, 7, NOON_MS + 5_000)
    assert len(holding) == 1
    times = [fire.scheduled_ms for fire in due(holding, NOON_MS + 30_000)]
    assert times == [NOON_MS + 10_000, NOON_MS + 20_000, NOON_MS + 30_000]


def test_messages_go_to_the_topic_of_pool_and_priority_and_the_partitions_own_place() -> None:
    holding = make()
    holding.take_jobs([every(10_000, priority=0)], NEW)
    out: list[Message] = []
    holding.take_waiting([waiting(NOON_MS)])
    holding.due(NOON_MS, out, [])
    assert {message.topic for message in out} == {
        "shardwheel.jobs.short.critical",
        "shardwheel.jobs.long.critical",
    }
    assert {(message.topic_partition, message.key) for message in out} == {(7, JOB_ID)}


def test_a_waiting_execution_fires_once_with_its_attempt_and_no_schedule_number() -> None:
    holding = make()
    holding.take_waiting([waiting(NOON_MS + 10, attempt=2)])
    holding.take_waiting([waiting(NOON_MS + 20, attempt=3)])
    assert due(holding, NOON_MS + 10) == []
    (fire,) = due(holding, NOON_MS + 20)
    assert (fire.attempt, fire.schedule_no, fire.scheduled_ms) == (3, 0, NOON_MS)
    assert len(holding) == 0


def test_a_change_is_applied_once_a_version_and_only_a_new_schedule_restarts() -> None:
    holding = make()
    holding.take_jobs([every(10_000)], NEW)
    due(holding, NOON_MS + 10_000)
    stand = at(Stand(holding.wheel.stand_ms, 200))
    holding.take_jobs([every(10_000, version=2, priority=0)], stand)
    out: list[Message] = []
    holding.due(NOON_MS + 20_000, out, [])
    assert [message.topic for message in out] == ["shardwheel.jobs.short.critical"]
    holding.take_jobs([every(1_000, version=1, schedule_no=12)], stand)
    assert due(holding, NOON_MS + 21_000) == []
    edited = every(1_000, version=3, schedule_no=12, schedule_xid=300, effective_from_ms=NOON_MS + 19_500)
    holding.take_jobs([edited], stand)
    assert [fire.scheduled_ms - NOON_MS for fire in due(holding, NOON_MS + 21_000)] == [20_000, 21_000]


def test_a_paused_job_leaves_and_comes_back_from_its_resume() -> None:
    holding = make()
    holding.take_jobs([every(10_000)], NEW)
    holding.take_jobs([every(10_000, version=2, active=False)], NEW)
    assert due(holding, NOON_MS + 10_000) == []
    resumed = every(10_000, version=3, schedule_no=13, schedule_xid=300, effective_from_ms=NOON_MS + 15_000)
    holding.take_jobs([resumed], at(Stand(NOON_MS + 10_000, 200)))
    assert [fire.scheduled_ms - NOON_MS for fire in due(holding, NOON_MS + 20_000)] == [20_000]


def test_a_job_that_is_over_does_not_fire_again_when_its_tags_are_edited() -> None:
    holding = make()
    holding.take_jobs([once(NOON_MS)], NEW)
    assert len(due(holding, NOON_MS)) == 1
    holding.take_jobs([once(NOON_MS, version=2)], at(Stand(holding.wheel.stand_ms, 200)))
    assert due(holding, NOON_MS + 1) == []


def test_at_a_take_over_the_stored_horizon_decides_where_a_job_goes_on() -> None:
    holding = make(NOON_MS + 20_000)
    known = every(10_000, job_id=b"k" * 16, schedule_xid=199)
    unknown = every(10_000, job_id=b"u" * 16, schedule_xid=200, effective_from_ms=NOON_MS + 1)
    holding.take_jobs([known, unknown], at(Stand(NOON_MS + 20_000, 200)))
    got = [(fire.job_id[:1], fire.scheduled_ms - NOON_MS) for fire in due(holding, NOON_MS + 30_000)]
    assert sorted(got) == [(b"k", 30_000), (b"u", 10_000), (b"u", 20_000), (b"u", 30_000)]


def test_never_a_time_before_effective_from() -> None:
    holding = make()
    late = every(10_000, schedule_xid=1, effective_from_ms=NOON_MS + 25_000)
    holding.take_jobs([late], at(Stand(NOON_MS, 200)))
    assert [fire.scheduled_ms - NOON_MS for fire in due(holding, NOON_MS + 30_000)] == [30_000]


def test_bounds_of_the_job_hold() -> None:
    holding = make()
    holding.take_jobs([every(10_000, start_ms=NOON_MS + 15_000, last_ms=NOON_MS + 30_000)], NEW)
    assert [fire.scheduled_ms - NOON_MS for fire in due(holding, NOON_MS + 50_000)] == [20_000, 30_000]
    assert len(holding) == 0


def test_jitter_moves_the_fire_time_not_the_scheduled_time() -> None:
    holding = make()
    holding.take_jobs([every(60_000, jitter_ms=30_000)], NEW)
    seen = [fire for now in range(0, 180_000, 500) for fire in due(holding, NOON_MS + now)]
    assert [fire.scheduled_ms - NOON_MS for fire in seen[:2]] == [0, 60_000]
    assert all(0 <= fire.due_ms - fire.scheduled_ms < 30_000 for fire in seen)


def test_missed_times_are_caught_up_by_policy() -> None:
    hour = 3_600_000
    expected = {
        "fire_last": [(FireKind.SKIP_RANGE, 0, 11), (FireKind.FIRE, 55 * 60_000, 0)],
        "skip": [(FireKind.SKIP_RANGE, 0, 12)],
        "fire_all": [(FireKind.FIRE, minute * 60_000, 0) for minute in range(0, 60, 5)],
    }
    for misfire, messages in expected.items():
        holding = make()
        holding.take_jobs([every(300_000, misfire=misfire, catchup_window_ms=2 * hour)], NEW)
        out: list[Message] = []
        late: list[tuple[int, Message]] = []
        holding.due(NOON_MS + hour + 30_000, out, late)
        assert {partition for partition, _ in late} == {7}
        got = [(f.kind, f.scheduled_ms - NOON_MS, f.count) for f in fires(message for _, message in late)]
        assert got == messages, misfire
        assert [fire.scheduled_ms - NOON_MS for fire in fires(out)] == [hour]


def test_one_missed_time_is_a_skip_and_very_many_are_one_range() -> None:
    holding = make()
    holding.take_jobs([once(NOON_MS, misfire="skip")], NEW)
    (fire,) = caught_up(holding, NOON_MS + 100_000)
    assert (fire.kind, fire.reason, fire.count) == (FireKind.SKIP, "misfire", 0)
    holding = make()
    holding.take_jobs([every(1_000, misfire="fire_all")], NEW)
    (fire,) = caught_up(holding, NOON_MS + 600_000)
    assert (fire.kind, fire.scheduled_ms, fire.count) == (FireKind.CATCH_UP_RANGE, NOON_MS, 540)
    assert fire.until_ms < NOON_MS + 540_000


def test_a_partition_that_goes_takes_its_entries_with_it_and_no_others() -> None:
    holding = make()
    other = every(1_000, job_id=b"o" * 16, partition=8)
    holding.take_jobs([every(1_000), other], NEW)
    holding.take_waiting([waiting(NOON_MS)])
    assert (holding.count(7), holding.count(8)) == (2, 1)
    late = every(1_000, job_id=b"l" * 16)._replace(anchor_ms=NOON_MS + 500)
    holding.take_jobs([late], NEW)
    holding.forget([7])
    assert [(fire.job_id, fire.partition) for fire in due(holding, NOON_MS)] == [(b"o" * 16, 8)]
    assert (holding.count(7), holding.count(8)) == (1, 1), "what was due went, the rest is to be cleared away"
    while holding.clear_away(1):
        pass
    assert (holding.count(7), holding.count(8), len(holding)) == (0, 1, 1)
    holding.take_jobs([every(1_000)], NEW)
    assert {fire.job_id for fire in due(holding, NOON_MS + 1_000)} == {JOB_ID, b"o" * 16}


def test_a_job_whose_schedule_cannot_be_read_is_left_out_and_named_until_it_can() -> None:
    holding = make()
    lost = every(1_000, job_id=b"l" * 16)._replace(schedule='{"cron":"0 9 * * *","time_zone":"Mars/Base"}')
    holding.take_jobs([every(1_000), lost, lost._replace(job_id=b"m" * 16, partition=8)], NEW)
    assert [fire.job_id for fire in due(holding, NOON_MS)] == [JOB_ID]
    assert {job_id: partition for job_id, (partition, _) in holding.unreadable.items()} == {
        b"l" * 16: 7,
        b"m" * 16: 8,
    }
    assert "Mars/Base" in holding.unreadable[b"l" * 16][1]
    holding.forget([8])
    holding.take_jobs([every(1_000, job_id=b"l" * 16, version=2)], NEW)
    assert holding.unreadable == {}
    assert {fire.job_id for fire in due(holding, NOON_MS + 1_000)} == {JOB_ID, b"l" * 16}


def test_a_waiting_execution_without_a_possible_due_time_is_left_out_and_named_until_it_has_one() -> None:
    holding = make()
    good, lost, ancient = b"g" * 16, b"l" * 16, b"a" * 16
    holding.take_waiting([waiting(NOON_MS, execution_id=lost)])
    holding.take_waiting(
        [
            waiting(11_795_003_200_000, execution_id=lost),
            waiting(NOON_MS, execution_id=good),
            waiting(-1, execution_id=ancient, partition=8),
        ]
    )
    assert {one: partition for one, (partition, _) in holding.impossible.items()} == {lost: 7, ancient: 8}
    assert [fire.execution_id for fire in due(holding, NOON_MS)] == [good]
    holding.forget([8])
    holding.take_waiting([waiting(NOON_MS + 1, execution_id=lost)])
    assert holding.impossible == {}
    assert [fire.execution_id for fire in due(holding, NOON_MS + 1)] == [lost]
