"""The in-memory twin of `kafka`: producers, consumers and questions, on a `MemoryKafka`.

It behaves as the real one does, as far as `ports.Bus` promises and tests/contract/test_bus.py checks, and
nothing more. One bus stands for one process: `crash()` ends all its clients at once, as kill -9 would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import trio

from shardwheel.cycles import Cycles, Flight
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.kafka_commits import Commits, offsets_after
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.ports import Message, Record, TopicPartition, TopicSpec


class MemoryProducer:
    """`ports.Producer`: a publication wakes a task that sends a flight off. Of one topic partition they
    arrive in their order; those of different ones may overtake each other."""

    def __init__(
        self,
        server: MemoryKafka,
        buffer_messages: int,
        close_limit_s: float,
        on_acknowledged: Callable[[int], None] | None,
    ) -> None:
        self._server = server
        self._close_limit_s = close_limit_s
        self._cycles = Cycles(buffer_messages, on_acknowledged)
        self._wake = trio.Event()
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._run, name="memory producer")

    def publish(self, messages: Sequence[Message]) -> int:
        ticket = self._cycles.take(messages)
        self._wake.set()
        return ticket

    @property
    def acknowledged(self) -> int:
        return self._cycles.acknowledged

    @property
    def room(self) -> int:
        return self._cycles.room

    async def wait_acknowledged(self, ticket: int) -> None:
        await self._cycles.wait_acknowledged(ticket)

    async def close(self) -> None:
        try:
            with trio.move_on_after(self._close_limit_s):
                await self._cycles.wait_acknowledged(self._cycles.last_ticket)
        finally:
            self.crash()

    def crash(self) -> None:
        """Nothing more leaves here, and nothing more is reported."""
        self._scope.cancel()
        self._cycles.close()

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                while True:
                    await self._wake.wait()
                    self._wake = trio.Event()
                    before = self._cycles.under_way
                    flight = self._cycles.depart()
                    if flight is not None:
                        nursery.start_soon(self._fly, flight, before)

    async def _fly(self, flight: Flight, before: Sequence[Flight]) -> None:
        places = _places(flight)
        ahead = [other for other in before if places & _places(other)]
        await self._carry(flight.messages, lambda: all(other.landed for other in ahead))
        flight.landed = True
        self._cycles.settle()
        self._server.changed()

    async def _carry(self, messages: Sequence[Message], is_its_turn: Callable[[], bool]) -> None:
        server = self._server
        while messages:
            await server.until(lambda: is_its_turn() and server.takes(messages))
            if not server.lose_acks:
                break
            server.append_torn(messages)
            await server.until(lambda: not server.lose_acks)
        for _ in range(2 if server.random.random() < server.duplicate_chance else 1):
            server.append(messages)
        await trio.sleep(server.ack_delay_s)


def _places(flight: Flight) -> set[tuple[str, int]]:
    return {(message.topic, message.topic_partition) for message in flight.messages}


class MemoryConsumer:
    """`ports.Consumer`."""

    def __init__(self, server: MemoryKafka, group: str, topics: Sequence[str], limit_s: float) -> None:
        self._server = server
        self._group = group
        self._limit_s = limit_s
        self._commits = Commits()
        self._paused = self._closed = False
        self._member = server.join(group, topics)

    @property
    def gaps(self) -> frozenset[TopicPartition]:
        return frozenset(self._member.gaps)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    async def take(self, most: int, wait_s: float) -> list[Record]:
        self._require_open()
        if not self._server.away and not self._server.lose_commit_answers:
            self._store_owed()
        found: list[Record] = []

        def find() -> bool:
            nonlocal found
            if not self._paused and not self._server.away:
                found = self._server.read(self._group, self._member, most)
            return bool(found)

        await trio.lowlevel.checkpoint()
        if not find():
            with trio.move_on_after(wait_s):
                await self._server.until(find)
        self._follow_assignment()
        self._commits.hand_out(found)
        return found

    async def commit(self, records: Iterable[Record]) -> None:
        self._require_open()
        await trio.lowlevel.checkpoint()
        self.commit_soon(records)
        if self._commits.owed:
            await _within(self._server, self._limit_s, lambda: not self._server.away)
            self._store_owed()
        if self._commits.owed:
            raise UnavailableError("Kafka: no confirmation of a commit", maybe_applied=True)

    def commit_soon(self, records: Iterable[Record]) -> None:
        self._require_open()
        self._follow_assignment()
        self._commits.want(offsets_after(records))
        if not self._server.away:
            self._store_owed()

    def _store_owed(self) -> None:
        self._follow_assignment()
        for place, offset in dict(self._commits.owed).items():
            self._server.commit(self._group, place, offset)
            if not self._server.lose_commit_answers:
                self._commits.confirm(place, offset)

    def _follow_assignment(self) -> None:
        self._commits.revoke(self._member.revoked)
        self._member.revoked.clear()
        self._commits.assign(self._member.assigned)

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("the consumer is closed")

    async def close(self) -> None:
        self.crash()
        await trio.lowlevel.checkpoint()

    def crash(self) -> None:
        """The group notices at once; a real one after the session's end."""
        self._closed = True
        self._server.leave(self._group, self._member)


class MemoryBus:
    """`ports.Bus` on a `MemoryKafka`."""

    def __init__(
        self,
        server: MemoryKafka,
        *,
        buffer_messages: int = 100_000,
        limit_s: float = 10.0,
        close_limit_s: float = 5.0,
    ) -> None:
        self._server = server
        self._buffer_messages = buffer_messages
        self._limit_s = limit_s
        self._close_limit_s = close_limit_s
        self._clients: list[MemoryProducer | MemoryConsumer] = []

    def producer(self, on_acknowledged: Callable[[int], None] | None = None) -> MemoryProducer:
        producer = MemoryProducer(self._server, self._buffer_messages, self._close_limit_s, on_acknowledged)
        self._clients.append(producer)
        return producer

    def consumer(self, group: str, topics: Sequence[str]) -> MemoryConsumer:
        consumer = MemoryConsumer(self._server, group, topics, self._limit_s)
        self._clients.append(consumer)
        return consumer

    def crash(self) -> None:
        for client in self._clients:
            client.crash()

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> None:
        await self._reach()
        self._server.create(specs)

    async def generation(self, topics: Sequence[str]) -> str:
        await self._reach()
        return self._server.generation(topics)

    async def start_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        await self._reach()
        return {place: log.start for place, log in self._server.logs(topics).items()}

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        await self._reach()
        return {place: log.end for place, log in self._server.logs(topics).items()}

    async def committed_offsets(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, int]:
        await self._reach()
        places = self._server.logs(topics)
        return {place: at for place, at in self._server.committed(group).items() if place in places}

    async def _reach(self) -> None:
        await _within(self._server, self._limit_s, lambda: not self._server.away)


async def _within(server: MemoryKafka, limit_s: float, condition: Callable[[], bool]) -> None:
    with trio.move_on_after(limit_s) as scope:
        await server.until(condition)
    if scope.cancelled_caught:
        raise UnavailableError(f"Kafka: no answer for {limit_s:g} s")
