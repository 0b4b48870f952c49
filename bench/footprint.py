"""What a wheel costs in memory and to the garbage collector, measured in a process of its own.

Entries are held in as many wheels as it takes, at so many a wheel, and the growth of the process's
resident memory is divided by their number: all is in it, the index, the columns' spare room, the
rings, and what the allocator wastes. (Small wheels could not be measured alone: memory comes in pieces of
a megabyte.) The ids are made in portions and thrown away, as a shard that loads
does with its rows.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from typing import Final, NamedTuple

import msgspec

from shardwheel.bench.measure import microseconds_each, repeat, resident_bytes
from shardwheel.wheel import Wheel

_PORTION: Final = 10_000
_SPAN_MS: Final = 7 * 86_400_000


class Footprint(NamedTuple):
    bytes_per_entry: float
    gc_ms: float
    gc_without_ms: float


def footprint(held: int, stand_ms: int, entries: int) -> Footprint:
    """The cost of wheels that hold so many entries each, and so many together, in a fresh process."""
    command = [sys.executable, "-m", __name__, str(held), str(stand_ms), str(entries)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(answer.stdout, type=Footprint)


def _measure(held: int, stand_ms: int, entries: int) -> Footprint:
    dice = random.Random(3)
    gc_without_ms = _collect_ms()
    before = resident_bytes()
    wheels = [_filled(held, stand_ms, dice) for _ in range(max(1, entries // held))]
    gc.collect()
    grown = resident_bytes() - before
    return Footprint(grown / (held * len(wheels)), _collect_ms(), gc_without_ms)


def _filled(held: int, stand_ms: int, dice: random.Random) -> Wheel:
    wheel = Wheel(stand_ms)
    for begin in range(0, held, _PORTION):
        count = min(_PORTION, held - begin)
        keys = [dice.randbytes(16) for _ in range(count)]
        wheel.load(keys, [stand_ms + 1 + dice.randrange(_SPAN_MS) for _ in range(count)])
    return wheel


def _collect_ms() -> float:
    """CPU time of a full collection, when there is nothing to free."""
    gc.collect()
    return repeat(3, lambda: microseconds_each(1, gc.collect)).median / 1000


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_measure(*map(int, sys.argv[1:]))))
