"""What the wheels of `bench wheel` are filled with.

The load is the same however much is held: half of the entries, the hot ones, are due 2,000 times a second
together; the other half, between an hour and a month away, are only there. Each entry has an interval of
its own, with which it goes back in when it came out, so that a wheel stays as full as it was.
"""

from __future__ import annotations

import random
from array import array
from typing import Final

from shardwheel.wheel import Wheel

RATE_PER_S: Final = 2_000
# Five minutes before a border of level 3, where those of all finer levels fall too: 2026-11-21, 21:25.
STAND_MS: Final = (13_376 << 27) - 310_000
_HOUR_MS: Final = 3_600_000
_MONTH_MS: Final = 30 * 86_400_000


class Filling:
    """Wheels filled alike, and the interval of each row in each of them (by the wheel's `id()`)."""

    def __init__(self, held: int, partitions: int = 1) -> None:
        dice = random.Random(5)
        self.intervals_ms: dict[int, array[int]] = {}
        self.wheels = [self._filled(held, partitions, dice) for _ in range(partitions)]

    def _filled(self, held: int, partitions: int, dice: random.Random) -> Wheel:
        """One of so many wheels that hold so many entries together."""
        count = held // partitions
        hot_ms = held // 2 * 1000 // RATE_PER_S
        intervals = array("Q", (hot_ms if row % 2 else _cold_ms(dice) for row in range(count)))
        wheel = Wheel(STAND_MS)
        self.intervals_ms[id(wheel)] = intervals
        keys = [dice.randbytes(16) for _ in range(count)]
        wheel.load(keys, [STAND_MS + 1 + dice.randrange(interval) for interval in intervals])
        return wheel


def _cold_ms(dice: random.Random) -> int:
    """Between an hour and a month, short ones more often: evenly on a logarithmic scale."""
    return int(_HOUR_MS * (_MONTH_MS / _HOUR_MS) ** dice.random())
