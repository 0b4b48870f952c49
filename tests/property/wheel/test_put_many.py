"""Many rows put at once lie where they would lie had they been put one by one."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardwheel.wheel import Wheel
from shardwheel.wheel.level import LATE
from shardwheel.wheel.rings import FEW
from tests.property.wheel.test_wheel_against_model import DISTANCES_MS, LEVEL_WIDTHS_MS, key_of

STAND_MS = (1 << 40) + 12_345
ROWS = 2 * FEW
NEAR_AND_FAR_MS = st.one_of(DISTANCES_MS, st.integers(-500, 1_500))


def filled(dues_ms: list[int], step_ms: int, poured: int) -> Wheel:
    """Of its rows some came out, some are poured half-way, all others wait."""
    wheel = Wheel(STAND_MS)
    for name, due_ms in enumerate(dues_ms):
        wheel.insert(key_of(name), due_ms)
    wheel.advance(STAND_MS + step_ms)
    wheel.prepare(poured)
    return wheel


def state_of(wheel: Wheel) -> object:
    entries = wheel._entries
    slots = [entries.in_slot(slot) if entries.occupied[slot] else [] for slot in range(LATE + 1)]
    backwards = [entries.previous[row] for rows in slots for row in rows]
    return slots, backwards, list(entries.last), list(wheel.due_ms), len(wheel), wheel.wake_ms


@given(
    distances_ms=st.lists(DISTANCES_MS, min_size=ROWS, max_size=ROWS),
    moves=st.lists(st.tuples(NEAR_AND_FAR_MS, st.sampled_from(LEVEL_WIDTHS_MS)), min_size=FEW, max_size=ROWS),
    step_ms=DISTANCES_MS,
    poured=st.integers(0, ROWS),
    dice=st.randoms(use_true_random=False),
)
def test_put_many_is_put_of_each(
    distances_ms: list[int], moves: list[tuple[int, int]], step_ms: int, poured: int, dice: Random
) -> None:
    dues_ms = [STAND_MS + distance_ms for distance_ms in distances_ms]
    together, one_by_one = (filled(dues_ms, step_ms, poured) for _ in range(2))
    rows = dice.sample(range(ROWS), len(moves))
    # Some on the border of a slot of some level: there the limits lie.
    moved_ms = [(STAND_MS + step_ms + move_ms) // width_ms * width_ms for move_ms, width_ms in moves]
    together.put_many(np.array(rows, np.int64), np.array(moved_ms, np.int64))
    for row, due_ms in zip(rows, moved_ms, strict=True):
        one_by_one.put(row, due_ms)
    assert state_of(together) == state_of(one_by_one)
