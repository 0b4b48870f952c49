"""What the wheels of `bench wheel` are filled with.

The load is the same however much is held: half of the entries, the hot ones, are due 2,000 times a second
together; the other half, between an hour and a month away, are only there. Each entry has an interval of
its own, with which it goes back in when it came out, so that a wheel stays as full as it was.
"""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from shardwheel.wheel import Wheel

RATE_PER_S: Final = 2_000
# Five minutes before a border of level 3, where those of all finer levels fall too: 2026-11-21, 21:25.
STAND_MS: Final = (13_376 << 27) - 310_000
_HOUR_MS: Final = 3_600_000
_MONTH_MS: Final = 30 * 86_400_000


class Filling:
    """A wheel that holds so many entries, and the interval of each row."""

    def __init__(self, held: int) -> None:
        dice = random.Random(5)
        hot_ms = held // 2 * 1000 // RATE_PER_S
        intervals = [hot_ms if row % 2 else _cold_ms(dice) for row in range(held)]
        self.wheel = Wheel(STAND_MS)
        self.intervals_ms = np.array(intervals, np.int64)
        keys = [dice.randbytes(16) for _ in range(held)]
        self.wheel.load(keys, [STAND_MS + 1 + dice.randrange(interval) for interval in intervals])


def _cold_ms(dice: random.Random) -> int:
    """Between an hour and a month, short ones more often: evenly on a logarithmic scale."""
    return int(_HOUR_MS * (_MONTH_MS / _HOUR_MS) ** dice.random())
