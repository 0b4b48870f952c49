"""The database's clock against a world in which clocks drift, jump, and answers take any time.

The truth is known here: at every moment the clock's bounds hold it, nothing is early, nothing runs back.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardwheel.clock import DRIFT, DatabaseClock, Sample

# Numbers of this size carry about a quarter of a microsecond.
ROUNDING_MS = 0.01

delays_s = st.floats(0, 2)
waits_s = st.floats(0, 3600)
rates = st.floats(-DRIFT, DRIFT)
# (out, back, wait, drift while all that happens)
asking = st.tuples(delays_s, delays_s, waits_s, rates)
steps_ms = st.floats(-86_400_000, 86_400_000)


class World:
    def __init__(self) -> None:
        self.monotonic_s = 5.0
        self.database_ms = 1_800_000_000_000.0

    def monotonic(self) -> float:
        return self.monotonic_s

    def pass_time(self, seconds: float, rate: float) -> None:
        self.monotonic_s += seconds
        self.database_ms += seconds * 1000 * (1 + rate)

    def sample(self, out_s: float, back_s: float, rate: float) -> Sample:
        sent_s = self.monotonic_s
        self.pass_time(out_s, rate)
        answer_ms = self.database_ms
        self.pass_time(back_s, rate)
        return Sample(sent_s, self.monotonic_s, answer_ms)


@given(st.lists(asking, min_size=1, max_size=20))
def test_the_truth_stays_within_the_bounds_and_nothing_is_early(
    asked: list[tuple[float, float, float, float]],
) -> None:
    world = World()
    clock = DatabaseClock(world.monotonic)
    for out_s, back_s, wait_s, rate in asked:
        clock.observe(world.sample(out_s, back_s, rate))
        for pause_s in (0.0, wait_s):
            world.pass_time(pause_s, rate)
            truth_ms = world.database_ms - world.monotonic_s * 1000
            assert abs(truth_ms - clock.offset_ms) <= clock.uncertainty_ms + ROUNDING_MS
            assert clock.reached_ms() <= world.database_ms + ROUNDING_MS


@given(st.lists(st.tuples(asking, steps_ms), min_size=1, max_size=20))
def test_no_step_of_the_database_makes_time_run_backwards(
    asked: list[tuple[tuple[float, float, float, float], float]],
) -> None:
    world = World()
    clock = DatabaseClock(world.monotonic)
    shown: list[tuple[float, float]] = []
    for (out_s, back_s, wait_s, rate), step_ms in asked:
        clock.observe(world.sample(out_s, back_s, rate))
        shown.append((clock.now_ms(), clock.reached_ms()))
        world.pass_time(wait_s, rate)
        shown.append((clock.now_ms(), clock.reached_ms()))
        world.database_ms += step_ms
    assert shown == sorted(shown)
    assert [reached for _, reached in shown] == sorted(reached for _, reached in shown)


@given(asking, steps_ms, asking)
def test_one_sample_after_a_step_is_enough(
    before: tuple[float, float, float, float], step_ms: float, after: tuple[float, float, float, float]
) -> None:
    world = World()
    clock = DatabaseClock(world.monotonic)
    clock.observe(world.sample(before[0], before[1], before[3]))
    world.pass_time(before[2], before[3])
    known_to_ms = clock.uncertainty_ms
    world.database_ms += step_ms
    clock.observe(world.sample(after[0], after[1], after[3]))
    # A step within what was uncertain anyway may go unnoticed; no error is ever larger than that.
    truth_ms = world.database_ms - world.monotonic_s * 1000
    round_trip_ms = (after[0] + after[1]) * 1000 * (1 + 2 * DRIFT)
    assert abs(truth_ms - clock.offset_ms) <= 2 * known_to_ms + round_trip_ms + ROUNDING_MS
