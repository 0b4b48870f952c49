"""What a wheel promises, one behaviour a test. The model test (tests/property/wheel) covers the rest."""

from __future__ import annotations

import gc

import pytest

from shardwheel.wheel import JOB, WAITING, Wheel
from shardwheel.wheel.level import END_MS

DAY_MS = 86_400_000


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def names(wheel: Wheel, rows: list[int]) -> list[int]:
    return [int.from_bytes(wheel.register.id_of(row), "big") for row in rows]


def test_the_worked_example_of_the_docstring() -> None:
    wheel = Wheel(0)
    a, b, c = (wheel.insert(key(1), 300), wheel.insert(key(2), 60_000), wheel.insert(key(3), 3_600_000))
    assert wheel.advance(300) == [a]
    assert wheel.touched == 1
    assert wheel.advance(59_400) == []
    assert wheel.prepare(100) == 1
    assert wheel.advance(59_999) == []
    assert wheel.advance(60_000) == [b]
    assert wheel.reschedule(key(3), 60_500)
    assert wheel.advance(31_536_000_000) == [c]
    assert wheel.touched == 4


def test_the_same_millisecond_comes_out_in_order_of_arrival() -> None:
    wheel = Wheel(0)
    for number in range(5):
        wheel.insert(key(number), 2_000)
    wheel.reschedule(key(1), 2_000)
    wheel.advance(1_400)
    wheel.prepare(2)
    wheel.insert(key(5), 2_000)
    assert names(wheel, wheel.advance(2_000)) == [0, 2, 3, 4, 1, 5]


@pytest.mark.parametrize("shift", [9, 18, 27, 36])
def test_nobody_overtakes_at_the_limit_of_a_level(shift: int) -> None:
    width_ms = 1 << shift
    limit_ms = 4 * width_ms
    wheel = Wheel(0)
    first = wheel.insert(key(1), limit_ms)
    # From here on, the slot that begins at the limit is the next to be poured, but not yet.
    wheel.advance(limit_ms - width_ms - 2)
    for _ in range(4):
        wheel.prepare(10)
    second = wheel.insert(key(2), limit_ms)
    assert wheel.advance(limit_ms) == [first, second]


def test_a_late_entry_comes_out_at_the_next_advance_in_due_order() -> None:
    wheel = Wheel(10_000)
    wheel.insert(key(1), 10_001)
    wheel.insert(key(2), 10_000)
    wheel.insert(key(3), 9_000)
    assert wheel.next_due() == 9_000
    assert names(wheel, wheel.advance(10_000)) == [3, 2]
    assert names(wheel, wheel.advance(10_001)) == [1]


def test_a_jump_of_months_touches_only_what_it_passes() -> None:
    wheel = Wheel(0)
    for day in range(1, 400):
        wheel.insert(key(day), day * DAY_MS)
    assert names(wheel, wheel.advance(100 * DAY_MS)) == list(range(1, 101))
    # Beside what was due, the slot of 37 hours that the jump ended in was looked through.
    assert wheel.touched <= 102
    assert len(wheel) == 299


@pytest.mark.parametrize("shift", [0, 9, 18, 27])
def test_what_lies_just_beyond_a_rings_reach_does_not_come_out_a_round_early(shift: int) -> None:
    round_ms = 1024 << shift
    # All limits are as far ahead as the rings allow: the next one is exactly one round away.
    stand_ms = (1 << 37) - 1
    for off_ms in (-1, 0, 1):
        wheel = Wheel(stand_ms - 1)
        wheel.advance(stand_ms)
        for _ in range(4):
            wheel.prepare(1)
        due_ms = stand_ms + 1 + round_ms + off_ms
        row = wheel.insert(key(1), due_ms)
        # A row for each slot in which the first one would be taken out too early.
        early = wheel.load([key(2), key(3)], [stand_ms + 1, stand_ms + (1 << shift)])
        assert wheel.advance(stand_ms + (1 << shift)) == early
        assert wheel.advance(due_ms - 1) == []
        assert wheel.advance(due_ms) == [row]


def test_prepare_leaves_nothing_to_pour_at_the_border() -> None:
    wheel = Wheel(0)
    wheel.load([key(number) for number in range(1_000)], [2_000] * 1_000)
    now_ms = 0
    while now_ms < 2_000:
        now_ms += 16
        before = wheel.touched
        due = wheel.advance(now_ms)
        assert wheel.touched == before + len(due)
        assert wheel.prepare(100) <= 100
    assert len(wheel) == 0


def test_what_is_left_in_a_half_poured_slot_may_be_due_before_what_was_poured() -> None:
    wheel = Wheel(0)
    later, sooner = wheel.load([key(1), key(2)], [1_500, 1_100])
    wheel.advance(600)
    assert wheel.prepare(1) == 1
    assert wheel.next_due() == 1_100
    assert wheel.advance(1_100) == [sooner]
    assert wheel.advance(1_500) == [later]


def test_time_never_runs_backwards() -> None:
    wheel = Wheel(1_000)
    with pytest.raises(ValueError, match="stands at 1000"):
        wheel.advance(999)


@pytest.mark.parametrize("due_ms", [-1, END_MS])
def test_a_due_time_outside_the_wheels_time_is_refused_and_leaves_no_trace(due_ms: int) -> None:
    wheel = Wheel(0)
    row = wheel.insert(key(1), 5)
    for attempt in (
        lambda: wheel.insert(key(2), due_ms),
        lambda: wheel.load([key(2), key(3)], [7, due_ms]),
        lambda: wheel.put(row, due_ms),
    ):
        with pytest.raises(ValueError, match="between 1970 and 2248"):
            attempt()
    assert len(wheel.register) == 1
    assert wheel.advance(5) == [row]


def test_a_load_needs_a_due_time_for_each_key() -> None:
    wheel = Wheel(0)
    with pytest.raises(ValueError, match="2 keys"):
        wheel.load([key(1), key(2)], [5])
    assert wheel.load([], []) == []
    assert len(wheel.register) == 0


def test_both_kinds_share_a_wheel() -> None:
    wheel = Wheel(0)
    job = wheel.insert(key(1), 7)
    waiting = wheel.insert(key(2), 7, WAITING)
    assert [wheel.kind_of(row) for row in wheel.advance(7)] == [JOB, WAITING]
    wheel.release(waiting)
    wheel.put(job, 8)
    assert key(1) in wheel
    assert key(2) not in wheel


def test_a_released_row_goes_to_a_newcomer() -> None:
    wheel = Wheel(0)
    rows = wheel.load([key(number) for number in range(3)], [5, 5, 5])
    wheel.cancel(key(1))
    assert wheel.insert(key(9), 6) == rows[1]
    assert names(wheel, wheel.advance(6)) == [0, 2, 9]


def test_the_histogram_counts_what_is_held_by_due_time() -> None:
    wheel = Wheel(1_000)
    wheel.load([key(number) for number in range(5)], [900, 1_050, 1_051, 1_199, 90_000])
    assert wheel.histogram(1_000, 1_200, 50).tolist() == [0, 2, 0, 1]
    assert wheel.histogram(900, 1_001, 100).tolist() == [1, 0]
    pieces = [wheel.histogram(1_000, 1_200, 50, slice(first, first + 2)) for first in range(0, 6, 2)]
    assert [sum(numbers) for numbers in zip(*pieces, strict=True)] == [0, 2, 0, 1]
    with pytest.raises(ValueError, match="bucket"):
        wheel.histogram(1_000, 1_200, 0)


def test_the_collector_has_nothing_to_walk() -> None:
    held = 20_000
    keys = [key(number) for number in range(held)]
    wheel = Wheel(0)
    wheel.load(keys[:1], [1])
    gc.collect()
    before = len(gc.get_objects())
    wheel.load(keys, [number * 1_000 for number in range(held)])
    gc.collect()
    assert len(gc.get_objects()) - before < held // 50
