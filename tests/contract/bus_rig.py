"""What the contract suite of `Bus` needs of an implementation: buses, names of its own, and data to lose.

Two rigs: `MemoryRig` on the twin, `KafkaRig` on a real Kafka that may be shared. Real time limits are
generous, because a test must hold on a machine ten times slower.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

import trio
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka import TopicPartition as DriverTopicPartition
from confluent_kafka.admin import AdminClient

from shardwheel.compose.kafka import KafkaServer
from shardwheel.kafka import Kafka
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.ports import Bus, Consumer, Message, Record, TopicPartition, TopicSpec

# So long that nothing ends by it unless something hangs.
PATIENCE_S = 90.0
# One take; many of them are made, so that none need be long.
TAKE_S = 0.2
# A port where nobody listens: discard's, below all that are given out.
NOWHERE = "127.0.0.1:9"
HOUR_MS = 3600 * 1000


class BusRig(Protocol):
    def bus(self, buffer_messages: int = 10_000) -> Bus: ...

    def hasty_bus(self) -> Bus:
        """Its limits are short: it gives up on a server that is silent for a second."""

    def bus_without_server(self, buffer_messages: int = 10_000) -> Bus:
        """Its server can't be reached; its limits are short."""

    async def lose_data(self, spec: TopicSpec) -> None:
        """The topic is gone with its records, and made again."""

    async def lose_all(self, group: str) -> None:
        """The server comes back without any data, and this group's member has joined again before anybody
        makes its topic anew."""

    async def trim(self, place: TopicPartition, offset: int) -> None:
        """Retention takes all records below that offset."""

    async def kill(self) -> None:
        """The server ends without a word (kill -9)."""

    async def start(self) -> None:
        """It returns, on the same address with the same data."""

    async def freeze(self) -> None:
        """It holds its connections and answers nothing (SIGSTOP)."""

    async def thaw(self) -> None: ...


class MemoryRig:
    def __init__(self) -> None:
        self.server = MemoryKafka()

    def bus(self, buffer_messages: int = 10_000) -> MemoryBus:
        return MemoryBus(self.server, buffer_messages=buffer_messages)

    def hasty_bus(self) -> MemoryBus:
        return MemoryBus(self.server, limit_s=1.0, close_limit_s=1.0)

    def bus_without_server(self, buffer_messages: int = 10_000) -> MemoryBus:
        nowhere = MemoryKafka()
        nowhere.away = True
        return MemoryBus(nowhere, buffer_messages=buffer_messages, limit_s=0.2, close_limit_s=0.2)

    async def lose_data(self, spec: TopicSpec) -> None:
        self.server.wipe()
        self.server.create([spec])

    async def lose_all(self, group: str) -> None:
        self.server.wipe()

    async def trim(self, place: TopicPartition, offset: int) -> None:
        self.server.trim(place, offset)

    async def kill(self) -> None:
        """What is on its way is stored in part, and the answer lost."""
        self.server.lose_acks = True
        await trio.sleep(1)
        self.server.away = True

    async def start(self) -> None:
        self.server.away = self.server.lose_acks = False

    async def freeze(self) -> None:
        self.server.away = True

    async def thaw(self) -> None:
        self.server.away = False


class KafkaRig:
    def __init__(self, server: KafkaServer) -> None:
        self.server = server

    def bus(self, buffer_messages: int = 10_000) -> Kafka:
        # Many a test closes a producer to be sure that all is delivered: a busy machine may need its time.
        return Kafka(
            self.server.bootstrap,
            buffer_messages=buffer_messages,
            limit_s=PATIENCE_S,
            close_limit_s=PATIENCE_S / 3,
        )

    def hasty_bus(self) -> Kafka:
        settings = {"topic.metadata.propagation.max.ms": "100"}
        return Kafka(self.server.bootstrap, settings, limit_s=1.0, stall_s=1.0, close_limit_s=1.0)

    def bus_without_server(self, buffer_messages: int = 10_000) -> Kafka:
        return Kafka(NOWHERE, buffer_messages=buffer_messages, limit_s=0.5, close_limit_s=0.2)

    async def lose_data(self, spec: TopicSpec) -> None:
        await self._admin(lambda admin: admin.delete_topics([spec.name]).values())
        await self.bus().ensure_topics([spec])

    async def lose_all(self, group: str) -> None:
        await self.kill()
        shutil.rmtree(self.server.data)
        await self.start()
        while not await trio.to_thread.run_sync(self._has_member, group):
            await trio.sleep(0.1)

    def _has_member(self, group: str) -> bool:
        admin = AdminClient({"bootstrap.servers": self.server.bootstrap, "log_level": 0})
        (future,) = admin.describe_consumer_groups([group], request_timeout=PATIENCE_S).values()
        with suppress(KafkaException):  # The new server has not made the groups' own topic yet.
            found = future.result(PATIENCE_S)
            return found.state == ConsumerGroupState.STABLE and bool(found.members)
        return False

    async def trim(self, place: TopicPartition, offset: int) -> None:
        await self._admin(lambda admin: admin.delete_records([DriverTopicPartition(*place, offset)]).values())

    async def kill(self) -> None:
        await trio.to_thread.run_sync(self.server.kill)

    async def start(self) -> None:
        await trio.to_thread.run_sync(self.server.start)

    async def freeze(self) -> None:
        self.server.freeze()

    async def thaw(self) -> None:
        self.server.thaw()

    async def _admin(self, ask: Callable[[AdminClient], Iterable[object]]) -> None:
        def in_thread() -> None:
            admin = AdminClient({"bootstrap.servers": self.server.bootstrap, "log_level": 0})
            for future in ask(admin):
                future.result(PATIENCE_S)  # type: ignore[attr-defined]

        await trio.to_thread.run_sync(in_thread)


def unique(stem: str) -> str:
    return f"{stem}.{uuid.uuid4().hex[:12]}"


async def make_topic(bus: Bus, topic_partitions: int = 4) -> str:
    name = unique("bus")
    await bus.ensure_topics([TopicSpec(name, topic_partitions, HOUR_MS)])
    return name


def cycle(topic: str, values: Iterable[int], topic_partitions: int = 4) -> list[Message]:
    """Messages with these numbers, spread over the topic partitions by number."""
    return [Message(topic, value % topic_partitions, b"key", b"%d" % value) for value in values]


def values_of(records: Iterable[Record]) -> list[int]:
    return [int(record.value) for record in records]


async def publish_all(bus: Bus, messages: Sequence[Message]) -> None:
    producer = bus.producer()
    await producer.wait_acknowledged(producer.publish(messages))
    await producer.close()


async def take_until(consumer: Consumer, enough: Callable[[list[Record]], bool]) -> list[Record]:
    """What comes until it is enough; the test's own limit ends it otherwise."""
    records: list[Record] = []
    while not enough(records):
        records += await consumer.take(1_000, TAKE_S)
    return records


async def take(consumer: Consumer, count: int) -> list[Record]:
    return await take_until(consumer, lambda records: len(records) >= count)


def first_copies(records: Iterable[Record]) -> dict[int, list[int]]:
    """The numbers of each topic partition in the order in which each came first."""
    seen: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for record in sorted(records, key=lambda record: record.offset):
        seen[record.topic_partition].setdefault(int(record.value))
    return {topic_partition: list(values) for topic_partition, values in seen.items()}
