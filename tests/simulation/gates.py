"""Edges of one simulated process that can be stalled, as SIGSTOP would: nothing leaves it, nothing returns.

Handlers and timers of the process go on, which is a stall as others see it: a silent owner or worker that
later wakes and goes on with what it believed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

import trio

from shardwheel.errors import UnavailableError
from shardwheel.job import Changes
from shardwheel.kafka_commits import offsets_after
from shardwheel.memory.bus import MemoryBus, MemoryConsumer, MemoryProducer
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.memory.loop_store import MemoryLoopStore
from shardwheel.memory.pool import MemoryPool
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.transaction import Transaction
from shardwheel.ports import Message, Record

P = ParamSpec("P")
T = TypeVar("T")


class Gate:
    def __init__(self) -> None:
        self._opened: trio.Event | None = None

    @property
    def is_shut(self) -> bool:
        return self._opened is not None

    def shut(self) -> None:
        if self._opened is None:
            self._opened = trio.Event()

    def open(self) -> None:
        if self._opened is not None:
            self._opened.set()
            self._opened = None

    async def passed(self) -> None:
        while self._opened is not None:
            await self._opened.wait()


class GatedPool(MemoryPool):
    def __init__(self, server: MemoryPostgres, gate: Gate, limit_s: float) -> None:
        super().__init__(server, limit_s=limit_s)
        self._gate = gate

    async def run(self, fn: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        await self._gate.passed()
        result = await super().run(fn, *args, **kwargs)
        await self._gate.passed()
        return result


class GatedStore(MemoryLoopStore):
    """With a gate for the feed alone: one connection of many may hang while the others answer."""

    def __init__(self, pool: GatedPool) -> None:
        super().__init__(pool)
        self.feed = Gate()

    async def changes(self, partitions: Sequence[int], since: str) -> Changes:
        await self.feed.passed()
        return await super().changes(partitions, since)


class GatedLeases(MemoryLeases):
    def __init__(self, server: MemoryEtcd, gate: Gate) -> None:
        super().__init__(server)
        self._gate = gate

    async def _call(self, request: Callable[[], T], *, writes: bool = True) -> T:
        await self._gate.passed()
        result = await super()._call(request, writes=writes)
        await self._gate.passed()
        return result


class GatedProducer(MemoryProducer):
    gate: Gate

    def publish(self, messages: Sequence[Message]) -> int:
        if self.gate.is_shut:
            raise UnavailableError("stalled")
        return super().publish(messages)


class GatedConsumer(MemoryConsumer):
    gate: Gate

    async def take(self, most: int, wait_s: float) -> list[Record]:
        await self.gate.passed()
        return await super().take(most, wait_s)

    async def commit(self, records: Iterable[Record]) -> None:
        await self.gate.passed()
        await super().commit(records)

    def commit_soon(self, records: Iterable[Record]) -> None:
        """A stalled process asks the broker for nothing: what it owes goes out with its next call."""
        if self.gate.is_shut:
            self._commits.want(offsets_after(records))
        else:
            super().commit_soon(records)


class GatedBus(MemoryBus):
    def __init__(self, server: MemoryKafka, gate: Gate) -> None:
        super().__init__(server, limit_s=3.0, buffer_messages=1_000)
        self._gate = gate

    def producer(self, on_acknowledged: Callable[[int], None] | None = None) -> GatedProducer:
        producer = GatedProducer(self._server, self._buffer_messages, self._close_limit_s, on_acknowledged)
        producer.gate = self._gate
        self._clients.append(producer)
        return producer

    def consumer(self, group: str, topics: Sequence[str]) -> GatedConsumer:
        consumer = GatedConsumer(self._server, group, topics, self._limit_s)
        consumer.gate = self._gate
        self._clients.append(consumer)
        return consumer
