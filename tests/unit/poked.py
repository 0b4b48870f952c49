"""Doors of shards that hear pokes, and an etcd that knows whose they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from shardwheel.http import Answer, address_of, listen, serve
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.ports import Put
from shardwheel.records import Member, encode, member_key, owner_key
from shardwheel.service import Service
from shardwheel.tls import PLAIN_DOORS, DoorTls

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
async def behind(*doors: Door, tls: DoorTls = PLAIN_DOORS) -> AsyncIterator[MemoryLeases]:
    """An etcd with shards behind these doors: the n-th owns partition n."""
    leases = MemoryLeases(MemoryEtcd())
    async with trio.open_nursery() as nursery:
        for number, door in enumerate(doors):
            listeners = await listen("127.0.0.1", 0)
            nursery.start_soon(serve, {("POST", "/poke"): door.poke}, listeners, tls.server)
            member = Member(f"s{number}", address=address_of(listeners[0]))
            puts = [Put(member_key(member.shard_id), encode(member))]
            await leases.txn([], [*puts, Put(owner_key(number), member.shard_id.encode())])
        yield leases
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        yield
        service.stop()
