"""A cluster of two shards on an etcd in memory, with a trio of its own in a thread: what the API steers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from shardwheel.coordinator.steering import look
from shardwheel.http import address_of, listen, serve
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.partition import PARTITIONS
from shardwheel.ports import Leases, Put
from shardwheel.records import Member, View, encode, member_key, owner_key
from shardwheel.shard.census import Census
from shardwheel.shard.holding import Holding

T = TypeVar("T")
FIRST, SECOND = "first", "second"


class Cluster:
    """The first shard owns all and its door is shut; the second has just come, with something in its wheel
    and an open door. There is no leader: what is asked for stays so."""

    def __init__(self) -> None:
        self._tokens: queue.Queue[trio.lowlevel.TrioToken] = queue.Queue()
        self._leases = MemoryLeases(MemoryEtcd())
        self._end = trio.Event()
        self.holding = Holding(2, 0)
        self._census = Census(SECOND, {0: self.holding})
        self._thread = threading.Thread(target=trio.run, args=[self._run])
        self._thread.start()
        self._token = self._tokens.get(timeout=60)

    def errand(self, work: Callable[[Leases], Awaitable[T]]) -> T:
        return trio.from_thread.run(work, self._leases, trio_token=self._token)

    def view(self) -> View:
        return self.errand(look)

    def close(self) -> None:
        trio.from_thread.run_sync(self._end.set, trio_token=self._token)
        self._thread.join()

    async def _run(self) -> None:
        listeners = await listen("127.0.0.1", 0)
        for shard_id, address in ((FIRST, ""), (SECOND, address_of(listeners[0]))):
            member = Member(shard_id, address=address)
            await self._leases.txn([], [Put(member_key(shard_id), encode(member))])
        for partition in range(PARTITIONS):
            await self._leases.txn([], [Put(owner_key(partition), FIRST.encode())])
        self._tokens.put(trio.lowlevel.current_trio_token())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, {("POST", "/census"): self._census.route}, listeners)
            await self._end.wait()
            nursery.cancel_scope.cancel()
