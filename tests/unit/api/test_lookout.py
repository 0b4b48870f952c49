"""The trio half: the view of the cluster, and pokes that never make anybody wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import trio_test

from shardwheel.api.lookout import Lookout
from shardwheel.errors import UnavailableError
from shardwheel.http import Answer, address_of, listen, serve
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.ports import Put
from shardwheel.records import Member, encode, member_key, owner_key
from shardwheel.service import Service

PATIENCE_S = 60.0


class Door:
    """A shard's door that hears pokes; shut, it takes them and does not answer."""

    def __init__(self) -> None:
        self.heard = 0
        self.news = trio.Event()
        self.open = trio.Event()
        self.open.set()

    async def poke(self, _body: bytes) -> Answer:
        self.heard += 1
        self.news.set()
        self.news = trio.Event()
        await self.open.wait()
        return Answer(202, b"{}")

    async def until_heard(self, count: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while self.heard < count:
                await self.news.wait()


@asynccontextmanager
async def watched(*doors: Door) -> AsyncIterator[Lookout]:
    """A lookout over shards with these doors: the n-th owns partition n."""
    leases = MemoryLeases(MemoryEtcd())
    service = Service("test", address="nowhere:0")
    lookout = Lookout(service, leases)
    lookout.add_to_service()
    async with trio.open_nursery() as nursery:
        for number, door in enumerate(doors):
            listeners = await listen("127.0.0.1", 0)
            nursery.start_soon(serve, {("POST", "/poke"): door.poke}, listeners)
            member = Member(f"s{number}", address=address_of(listeners[0]))
            puts = [Put(member_key(member.shard_id), encode(member))]
            await leases.txn([], [*puts, Put(owner_key(number), member.shard_id.encode())])
        nursery.start_soon(service.run)
        with trio.fail_after(PATIENCE_S):
            while lookout.view is None:
                await trio.sleep(0.001)
        yield lookout
        service.stop()
        nursery.cancel_scope.cancel()


@trio_test
async def test_the_owner_of_what_changed_is_poked_and_nobody_else() -> None:
    first, second = Door(), Door()
    async with watched(first, second) as lookout:
        # From another thread, as the HTTP server does it.
        await trio.to_thread.run_sync(lookout.poke, [1])
        await second.until_heard(1)
        assert first.heard == 0
        lookout.poke([0, 200])
        await first.until_heard(1)
        assert second.heard == 1


@trio_test
async def test_a_slow_shard_holds_up_no_other_and_hears_of_all_at_once() -> None:
    slow, quick = Door(), Door()
    slow.open = trio.Event()
    async with watched(slow, quick) as lookout:
        lookout.poke([0])
        await slow.until_heard(1)
        for count in range(1, 6):
            lookout.poke([0, 1])
            await quick.until_heard(count)
        assert slow.heard == 1
        slow.open.set()
        await slow.until_heard(2)


@trio_test
async def test_a_poke_for_nobody_is_lost_in_silence() -> None:
    async with watched(Door()) as lookout:
        lookout.poke([7])
    lookout.poke([0])


@trio_test
async def test_an_errand_is_done_for_a_thread_until_the_process_stops() -> None:
    async with watched(Door()) as lookout:
        snapshot = await trio.to_thread.run_sync(lookout.errand, lambda leases: leases.range("shards/"))
        assert [item.key for item in snapshot.items] == ["shards/s0"]


def test_an_errand_before_the_start_is_refused() -> None:
    lookout = Lookout(Service("test", address="nowhere:0"), MemoryLeases(MemoryEtcd()))
    with pytest.raises(UnavailableError):
        lookout.errand(lambda leases: leases.range(""))
