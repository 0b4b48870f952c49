"""The census of a shard's wheels: all of them, piece by piece, with ticks between."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import trio_test

from shardwheel.shard import census
from shardwheel.shard.census import Census, Wish, count
from shardwheel.shard.holding import Holding
from shardwheel.wheel import Wheel


def wheel_of(*dues_ms: int) -> Wheel:
    wheel = Wheel(0)
    wheel.load([number.to_bytes(16, "big") for number in range(len(dues_ms))], dues_ms)
    return wheel


@trio_test
async def test_all_wheels_are_counted_together() -> None:
    wheels = [wheel_of(100, 110, 250), wheel_of(199, 300)]
    assert await count(wheels, Wish(100, 300, 100)) == [3, 1]


@trio_test
async def test_whoever_waits_goes_on_after_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "ROWS_AT_ONCE", 10)
    wheel = wheel_of(*range(100, 200))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        assert await count([wheel], Wish(0, 1_000, 1_000)) == [100]
        nursery.cancel_scope.cancel()
    # All but the last: who goes first is up to trio.
    assert ticks >= 9


@trio_test
async def test_the_door_counts_a_shared_holding_once() -> None:
    holding = Holding(2, 0)
    holding.wheel.load([bytes(16)], [150])
    answer = await Census("s1", {0: holding, 1: holding}).route(msgspec.json.encode(Wish(100, 200, 50)))
    assert answer.status == 200
    assert msgspec.json.decode(answer.body) == {"shard_id": "s1", "entries": 1, "counts": [0, 1]}


@trio_test
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"from_ms": 1, "to_ms": 1, "bucket_ms": 1}',
        b'{"from_ms": 0, "to_ms": 1001, "bucket_ms": 1}',
        b'{"from_ms": -1, "to_ms": 1, "bucket_ms": 1}',
        b'{"from_ms": 0, "to_ms": 1, "bucket_ms": 0}',
    ],
)
async def test_the_door_refuses_what_it_can_not_count(body: bytes) -> None:
    assert (await Census("s1", {}).route(body)).status == 400
