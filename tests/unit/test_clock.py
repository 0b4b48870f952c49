"""The database's clock from samples: what it shows, what it holds back, what it never reads."""

from __future__ import annotations

import time

import pytest
from trio.testing import trio_test

from shardwheel.clock import SAMPLES, DatabaseClock, Sample


class World:
    """Monotonic time and a database's clock, both set by hand; asking takes the given round trips."""

    def __init__(self, *, offset_ms: float = 1_800_000_000_000.0) -> None:
        self.monotonic_s = 1000.0
        self.offset_ms = offset_ms
        self.round_trips_s: list[float] = []

    def monotonic(self) -> float:
        return self.monotonic_s

    @property
    def database_ms(self) -> float:
        return self.monotonic_s * 1000 + self.offset_ms

    async def now_ms(self) -> float:
        return self.ask(self.round_trips_s.pop(0) if self.round_trips_s else 0.002)

    def ask(self, round_trip_s: float) -> float:
        self.monotonic_s += round_trip_s / 2
        answer_ms = self.database_ms
        self.monotonic_s += round_trip_s / 2
        return answer_ms

    def sample(self, round_trip_s: float) -> Sample:
        sent_s = self.monotonic_s
        return Sample(database_ms=self.ask(round_trip_s), sent_s=sent_s, received_s=self.monotonic_s)


def clock_of(world: World) -> DatabaseClock:
    return DatabaseClock(world.monotonic)


def test_the_worked_example_of_the_module() -> None:
    world = World()
    clock = clock_of(world)
    clock.observe(Sample(sent_s=10.000, received_s=10.004, database_ms=70_003.0))
    world.monotonic_s = 10.004
    assert clock.offset_ms == pytest.approx(60_001)
    assert clock.uncertainty_ms == pytest.approx(2, abs=0.01)
    assert clock.now_ms() == pytest.approx(70_005)
    assert clock.reached_ms() == pytest.approx(70_003, abs=0.01)


def test_it_says_nothing_before_it_was_measured() -> None:
    clock = clock_of(World())
    assert not clock.is_measured
    with pytest.raises(RuntimeError, match="run_once"):
        clock.now_ms()


@trio_test
async def test_the_quickest_of_several_round_trips_counts() -> None:
    world = World()
    world.round_trips_s = [0.100, 0.080, 0.001, 0.300, 0.090]
    assert len(world.round_trips_s) == SAMPLES
    clock = clock_of(world)
    await clock.run_once(world)
    assert clock.is_measured
    # Half of the quickest one, and what the two clocks may have drifted since.
    assert 0.5 <= clock.uncertainty_ms < 1.0
    assert abs(clock.offset_ms - world.offset_ms) <= clock.uncertainty_ms


def test_uncertainty_grows_until_the_next_sample() -> None:
    world = World()
    clock = clock_of(world)
    clock.observe(world.sample(0.001))
    fresh_ms = clock.uncertainty_ms
    world.monotonic_s += 60
    assert clock.uncertainty_ms == pytest.approx(fresh_ms + 30)
    clock.observe(world.sample(0.001))
    assert clock.uncertainty_ms == pytest.approx(fresh_ms)


def test_a_clock_that_was_set_back_is_waited_for() -> None:
    world = World()
    clock = clock_of(world)
    clock.observe(world.sample(0.001))
    stood_at_ms, shown_ms = clock.reached_ms(), clock.now_ms()
    world.offset_ms -= 5_000
    clock.observe(world.sample(0.001))
    assert (clock.reached_ms(), clock.now_ms()) == (stood_at_ms, shown_ms)
    world.monotonic_s += 4
    assert (clock.reached_ms(), clock.now_ms()) == (stood_at_ms, shown_ms)
    world.monotonic_s += 2
    assert stood_at_ms < clock.reached_ms() <= world.database_ms


def test_a_clock_that_was_set_forward_is_followed_at_once() -> None:
    world = World()
    clock = clock_of(world)
    clock.observe(world.sample(0.001))
    clock.reached_ms()
    world.offset_ms += 3_600_000
    clock.observe(world.sample(0.001))
    assert clock.reached_ms() == pytest.approx(world.database_ms, abs=2)


def test_no_wall_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def wall_clock() -> float:
        raise AssertionError("somebody read the wall clock")

    with monkeypatch.context() as patched:
        patched.setattr(time, "time", wall_clock)
        patched.setattr(time, "time_ns", wall_clock)
        clock = DatabaseClock(time.monotonic)
        clock.observe(Sample(time.monotonic(), time.monotonic(), 5.0))
        reached_ms = clock.reached_ms()
        assert clock.now_ms() >= reached_ms
