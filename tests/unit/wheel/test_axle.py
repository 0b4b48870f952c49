"""The axle turns what is due, lets the rest be, and loses nothing when partitions come and go."""

from __future__ import annotations

import random

import pytest

from shardwheel.wheel import Axle, Wheel


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def axle_of(*dues_ms: list[int], stand_ms: int = 0) -> Axle:
    """An axle with one wheel for each list of due times, partitions from 0."""
    axle = Axle(stand_ms)
    for partition, dues in enumerate(dues_ms):
        wheel = Wheel(stand_ms)
        wheel.load([key(number) for number in range(len(dues))], dues)
        axle.add(partition, wheel)
    return axle


def test_only_partitions_with_something_due_come_out() -> None:
    axle = axle_of([10, 20], [30], [])
    assert axle.wake_ms == 10
    assert axle.advance(9) == []
    assert axle.advance(20) == [(0, [0, 1])]
    assert axle.advance(30) == [(1, [0])]
    assert len(axle) == 0


def test_an_idle_wheel_is_fired_through_as_far_as_the_axle() -> None:
    axle = axle_of([5_000], [])
    axle.advance(4_000)
    assert axle[0].stand_ms == 0
    assert [axle.fired_through_ms(partition) for partition in axle] == [4_000, 4_000]


def test_a_wheel_that_was_just_added_is_fired_through_only_where_it_stands() -> None:
    axle = axle_of([], stand_ms=0)
    axle.advance(4_000)
    late = Wheel(1_000)
    late.insert(key(1), 1_500)
    axle.add(7, late)
    assert axle.fired_through_ms(7) < 1_500
    assert axle.advance(4_000) == [(7, [0])]
    assert axle.fired_through_ms(7) == 4_000


def test_a_wheel_whose_shard_had_a_faster_clock_rests_until_now_has_caught_up() -> None:
    axle = axle_of([])
    ahead = Wheel(2_000)
    ahead.insert(key(1), 1_990)
    axle.add(7, ahead)
    assert axle.advance(1_995) == []
    axle.prepare(10)
    assert axle.fired_through_ms(7) == 2_000
    assert axle.advance(2_000) == [(7, [0])]


def test_a_dropped_partition_is_not_turned_and_keeps_what_it_holds() -> None:
    axle = axle_of([10], [10])
    wheel = axle.drop(0)
    assert axle.advance(10) == [(1, [0])]
    axle.prepare(10)
    assert 0 not in axle
    assert wheel.advance(10) == [0]
    with pytest.raises(ValueError, match="already"):
        axle.add(1, wheel)


def test_preparing_changes_nothing_but_who_does_the_work() -> None:
    dice = random.Random(7)
    dues_ms = [[dice.randrange(1, 400_000) for _ in range(60)] for _ in range(20)]
    lazy, eager = axle_of(*dues_ms), axle_of(*dues_ms)
    now_ms, poured_ahead = 0, 0
    while now_ms < 400_000:
        now_ms += dice.randrange(1, 700)
        assert eager.advance(now_ms) == lazy.advance(now_ms)
        poured_ahead += eager.prepare(8)
    assert len(eager) == len(lazy) == 0
    assert poured_ahead > 0


def test_what_comes_late_between_advance_and_prepare_is_not_lost() -> None:
    axle = axle_of([600])
    axle.advance(550)
    axle[0].insert(key(9), 540)
    axle.prepare(10)
    assert axle.advance(551) == [(0, [1])]


def test_the_axles_time_never_runs_backwards() -> None:
    axle = Axle(100)
    with pytest.raises(ValueError, match="stands at 100"):
        axle.advance(99)
    assert axle.wake_ms is None
