"""Kafka as `ports.Bus`: makes producers and consumers, and asks the cluster about topics and offsets.

    bus = Kafka("127.0.0.1:9092", {"security.protocol": "SSL", …})
    await bus.ensure_topics([TopicSpec("shardwheel.results", 8, RETENTION_MS)])
    producer = bus.producer()

Kafka only carries: no decision of ours rests on its data being there (see `generation`). Making a bus or a
client does not connect; a broker that is away shows when something is asked of it, within `limit_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import trio
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from shardwheel import kafka_admin
from shardwheel.errors import UnavailableError
from shardwheel.kafka_consumer import KafkaConsumer
from shardwheel.kafka_producer import KafkaProducer
from shardwheel.kafka_settings import admin_settings, client_settings
from shardwheel.ports import TopicPartition, TopicSpec

_Answer = TypeVar("_Answer")
_Driver = TypeVar("_Driver", AdminClient, Consumer)

ASK_AGAIN_S = 0.1


class Kafka:
    """`ports.Bus` on confluent-kafka."""

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, str] | None = None,
        *,
        buffer_messages: int = 100_000,
        limit_s: float = 10.0,
        stall_s: float = 10.0,
        close_limit_s: float = 5.0,
    ) -> None:
        self._settings = client_settings(bootstrap, settings or {})
        self._buffer_messages = buffer_messages
        self._limit_s = limit_s
        self._stall_s = stall_s
        self._close_limit_s = close_limit_s
        self._admin: Asked[AdminClient] | None = None
        self._readers: dict[str, Asked[Consumer]] = {}

    def producer(self, on_acknowledged: Callable[[int], None] | None = None) -> KafkaProducer:
        return KafkaProducer(
            self._settings,
            buffer_messages=self._buffer_messages,
            stall_s=self._stall_s,
            close_limit_s=self._close_limit_s,
            on_acknowledged=on_acknowledged,
        )

    def consumer(self, group: str, topics: Sequence[str]) -> KafkaConsumer:
        return KafkaConsumer(self._settings, group, topics, limit_s=self._limit_s)

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> None:
        await self._ask(lambda admin: kafka_admin.ensure_topics(admin, specs, self._limit_s))

    async def generation(self, topics: Sequence[str]) -> str:
        return await self._ask(lambda admin: kafka_admin.generation(admin, topics, self._limit_s))

    async def start_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        return await self._ask(lambda admin: kafka_admin.start_offsets(admin, topics, self._limit_s))

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        return await self._ask(lambda admin: kafka_admin.end_offsets(admin, topics, self._limit_s))

    async def committed_offsets(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, int]:
        places = await self._ask(lambda admin: kafka_admin.places(admin, topics, self._limit_s))
        if group not in self._readers:
            reader = kafka_admin.connect_reader(admin_settings(self._settings), group)
            self._readers[group] = Asked(reader, self._limit_s)
        return await self._readers[group].ask(
            lambda reader: kafka_admin.committed_offsets(reader, places, self._limit_s)
        )

    async def _ask(self, question: Callable[[AdminClient], _Answer]) -> _Answer:
        if self._admin is None:
            self._admin = Asked(kafka_admin.connect(admin_settings(self._settings)), self._limit_s)
        return await self._admin.ask(question)


class Asked(Generic[_Driver]):
    """A driver of ours that is asked in threads, one question at a time."""

    def __init__(self, driver: _Driver, limit_s: float) -> None:
        self._driver: _Driver = driver
        self._limit_s = limit_s
        self._one_at_a_time = trio.CapacityLimiter(1)

    async def ask(self, question: Callable[[_Driver], _Answer]) -> _Answer:
        """Until the answer is not a passing one. Its few requests have limits of their own, of `limit_s`
        each; a thread that overstays nevertheless is left behind."""
        last: UnavailableError | None = None
        with trio.move_on_after(2 * self._limit_s):
            while True:
                try:
                    return await trio.to_thread.run_sync(
                        self._put, question, limiter=self._one_at_a_time, abandon_on_cancel=True
                    )
                except UnavailableError as error:
                    if not kafka_admin.is_passing(error):
                        raise
                    last = error
                await trio.sleep(ASK_AGAIN_S)
        raise UnavailableError(f"Kafka: no answer for {2 * self._limit_s:g} s", maybe_applied=True) from last

    def _put(self, question: Callable[[_Driver], _Answer]) -> _Answer:
        try:
            return question(self._driver)
        finally:
            self._driver.poll(0)  # Nobody wants what it has to report, but it would heap up.
