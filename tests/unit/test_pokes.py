"""Pokes reach the owner of what changed, and never make anybody wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.pokes import Asked, Pokes
from shardwheel.ports import Snapshot
from shardwheel.service import Service
from shardwheel.tls import PLAIN_DOORS, DoorTls, Tls, door_tls
from tests.unit.poked import Door, behind, running


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@asynccontextmanager
async def poking(*doors: Door, tls: DoorTls = PLAIN_DOORS) -> AsyncIterator[Pokes]:
    service = Service("test", address="nowhere:0")
    async with behind(*doors, tls=tls) as leases:
        pokes = Pokes(service, Asked(leases).look, tls)
        pokes.add_to_service()
        async with running(service):
            yield pokes


@trio_test
async def test_the_owner_of_what_changed_is_poked_and_nobody_else() -> None:
    first, second = Door(), Door()
    async with poking(first, second) as pokes:
        pokes.poke([1])
        await second.until_heard(1)
        assert first.heard == 0
        pokes.poke([0, 200])
        await first.until_heard(1)
        assert second.heard == 1


@trio_test
async def test_a_sealed_door_hears_them_too() -> None:
    door, files = Door(), Path(__file__).parents[1] / "contract" / "tls"
    tls = door_tls(Tls(*(str(files / name) for name in ("ca.pem", "server.pem", "server.key"))))
    async with poking(door, tls=tls) as pokes:
        pokes.poke([0])
        await door.until_heard(1)


@trio_test
async def test_a_slow_shard_holds_up_no_other_and_hears_of_all_at_once() -> None:
    slow, quick = Door(), Door()
    slow.open = trio.Event()
    async with poking(slow, quick) as pokes:
        pokes.poke([0])
        await slow.until_heard(1)
        for count in range(1, 6):
            pokes.poke([0, 1])
            await quick.until_heard(count)
        assert slow.heard == 1
        slow.open.set()
        await slow.until_heard(2)


@trio_test
async def test_a_poke_for_nobody_is_lost_in_silence() -> None:
    door = Door()
    async with poking(door) as pokes:
        pokes.poke([7])
        pokes.poke([])
        pokes.poke([0])
        await door.until_heard(1)


class Counting(MemoryLeases):
    """An etcd that counts how often it is asked."""

    asked = 0

    async def range(self, prefix: str) -> Snapshot:
        self.asked += 1
        return await super().range(prefix)


@trio_test
async def test_etcd_is_asked_when_somebody_looks_and_once_a_second_at_most(clock: MockClock) -> None:
    leases = Counting(MemoryEtcd())
    asked = Asked(leases)
    for _ in range(3):
        assert await asked.look() is not None
    assert leases.asked == 1
    await trio.sleep(1.0)
    await asked.look()
    assert leases.asked == 2
