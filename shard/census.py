"""How many entries are due when, for people who look: the shard's door `POST /census`.

It looks at every row, and must delay no tick: so a piece at a time, of a tenth of a millisecond or so, with a
pause for whoever waits between two. What moves meanwhile is counted once, where it is found. Entries of a
partition that was just given away are counted until they are cleared away, a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
import numpy as np
import trio
from msgspec import Meta

from shardwheel.http import Answer
from shardwheel.shard.holding import Holding
from shardwheel.wheel import Wheel

ROWS_AT_ONCE = 16_384
MOST_BUCKETS = 1_000

Milliseconds = Annotated[int, Meta(ge=0, lt=1 << 43)]


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    from_ms: Milliseconds
    to_ms: Milliseconds
    bucket_ms: Annotated[int, Meta(ge=1, lt=1 << 43)]

    def __post_init__(self) -> None:
        if not 0 < self.to_ms - self.from_ms <= self.bucket_ms * MOST_BUCKETS:
            raise ValueError(f"give from_ms < to_ms, and at most {MOST_BUCKETS} buckets")


class Census:
    """Counts what a shard fires."""

    def __init__(self, shard_id: str, holdings: Mapping[int, Holding]) -> None:
        self._shard_id = shard_id
        self._holdings = holdings

    async def route(self, body: bytes) -> Answer:
        try:
            wish = msgspec.json.decode(body, type=Wish)
        except msgspec.MsgspecError as error:
            return Answer(400, msgspec.json.encode({"error": {"code": "invalid", "message": str(error)}}))
        wheels = [holding.wheel for holding in set(self._holdings.values())]
        counts = await count(wheels, wish)
        entries = sum(map(len, wheels))
        found = {"shard_id": self._shard_id, "entries": entries, "counts": counts}
        return Answer(200, msgspec.json.encode(found))


async def count(wheels: Iterable[Wheel], wish: Wish) -> list[int]:
    counts = np.zeros(-((wish.from_ms - wish.to_ms) // wish.bucket_ms), np.int64)
    for wheel in wheels:
        for first in range(0, len(wheel.due_ms), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            counts += wheel.histogram(wish.from_ms, wish.to_ms, wish.bucket_ms, rows)
            await trio.lowlevel.checkpoint()
    return [int(number) for number in counts]
