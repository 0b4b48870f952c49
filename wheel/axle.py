"""The axle: the wheels of all partitions that a shard fires, turned together.

Each partition has a wheel of its own, so that a partition that moves away is dropped as a whole, and one
that comes is loaded beside the others and put on when it is ready. A tick must not cost 256 wheels,
though: each wheel says before which time nothing is due (`wake_ms`), and `advance` turns only those
that have something. An idle tick of 256 wheels is 256 comparisons.

    for partition, rows in axle.advance(now_ms):   # only partitions with something due
        publish(partition, rows)
    axle.prepare(most=1000)                        # in the time that is left until the next tick

`prepare` goes round: each call brings a sixteenth of the wheels up to the present and lets them pour
ahead, so that 256 wheels do not all pour at the border that they share. With ticks of up to 16 ms each
wheel has its turn twice before the next half-second slot is needed.

The axle never loads, fires or stores anything, and a wheel that is not on it is not turned.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardwheel.wheel.wheel import Wheel

_CALLS_A_ROUND = 16


class Axle:
    """Partition → wheel, and one `advance` for all of them."""

    __slots__ = ("_round", "_wheels", "stand_ms")

    def __init__(self, stand_ms: int) -> None:
        self.stand_ms = stand_ms
        self._wheels: dict[int, Wheel] = {}
        # The partitions whose turn to prepare comes next; refilled when it runs out.
        self._round: list[int] = []

    def __len__(self) -> int:
        """How many entries wait on all wheels."""
        return sum(len(wheel) for wheel in self._wheels.values())

    def __contains__(self, partition: int) -> bool:
        return partition in self._wheels

    def __getitem__(self, partition: int) -> Wheel:
        return self._wheels[partition]

    def __iter__(self) -> Iterator[int]:
        """The partitions, in the order in which they were added."""
        return iter(self._wheels)

    def add(self, partition: int, wheel: Wheel) -> None:
        if partition in self._wheels:
            raise ValueError(f"partition {partition} has a wheel already")
        self._wheels[partition] = wheel

    def drop(self, partition: int) -> Wheel:
        """Take a partition's wheel off, with all it holds; it goes on standing where it stands."""
        return self._wheels.pop(partition)

    def advance(self, now_ms: int) -> list[tuple[int, list[int]]]:
        """Of each partition with something due until now, the rows in due order.

        A wheel that already stands beyond now (it came from a shard whose clock was ahead) rests until
        now has caught up.
        """
        if now_ms < self.stand_ms:
            raise ValueError(f"an axle that stands at {self.stand_ms} can't advance to {now_ms}")
        self.stand_ms = now_ms
        due = []
        for partition, wheel in self._wheels.items():
            if wheel.wake_ms <= now_ms and wheel.stand_ms <= now_ms:
                rows = wheel.advance(now_ms)
                if rows:
                    due.append((partition, rows))
        return due

    def prepare(self, most: int) -> int:
        """Let the next wheels of the round pour ahead, at most so many entries together.

        Each has an equal share, so that none that has hours to pour keeps others from their next second.
        """
        turns = -(-len(self._wheels) // _CALLS_A_ROUND)
        moved = 0
        for turn in range(turns):
            wheel = self._next_of_the_round()
            if wheel is None:
                continue
            # What came late since the last advance must come out of the next one, not be lost here.
            if wheel.stand_ms <= self.stand_ms < wheel.wake_ms:
                wheel.advance(self.stand_ms)
            moved += wheel.prepare((most - moved) // (turns - turn))
        return moved

    def fired_through_ms(self, partition: int) -> int:
        """Until when all that was due in this partition has come out.

        A wheel that was not turned for lack of anything due is as far as the axle, but its own
        `stand_ms` does not show it.
        """
        wheel = self._wheels[partition]
        return max(wheel.stand_ms, min(self.stand_ms, wheel.wake_ms - 1))

    @property
    def wake_ms(self) -> int | None:
        """Nothing is due before this time; None if there is no wheel."""
        return min((wheel.wake_ms for wheel in self._wheels.values()), default=None)

    def _next_of_the_round(self) -> Wheel | None:
        if not self._round:
            self._round = list(self._wheels)
        # A partition may have left since the round began.
        return self._wheels.get(self._round.pop())
