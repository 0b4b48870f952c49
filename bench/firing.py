"""A shard's ticker on the real producer, in this process: what `bench tick` and `bench herd` fire with.

Every message is noted with its ticket and every acknowledgement with its moment; latencies are worked out
after the run. The topic is read back and compared with what the schedules say.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import trio

from shardwheel.bench.measure import Latencies
from shardwheel.bench.stored import TOPIC_PARTITIONS
from shardwheel.ids import fire_id
from shardwheel.job import JobEntry
from shardwheel.kafka import Kafka
from shardwheel.ports import Message, Producer
from shardwheel.schedule import schedule_of
from shardwheel.shard.holding import Holding
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.shard import TICK_S
from shardwheel.shard.ticker import Ticker
from shardwheel.timing import Timing
from shardwheel.topics import job_topic
from shardwheel.wire import decode_fire

READ_LIMIT_S: Final = 600.0
_FIRES_TOPIC: Final = job_topic("short", 2)
# A topic that the shard's fires do not use, and messages about as large as they are.
_PLAIN_TOPIC: Final = job_topic("long", 3)
_PLAIN_VALUE: Final = bytes(80)


# --- The shard ----------------------------------------------------------------------------------------


class Log:
    """A producer that notes what was published under which ticket, and when that was acknowledged."""

    def __init__(self, now_ms: Callable[[], float], producer: Producer) -> None:
        self.producer = producer
        self._now_ms = now_ms
        self._published: list[tuple[int, Sequence[Message]]] = []
        self._acknowledged: list[tuple[int, float]] = []

    def publish(self, messages: Sequence[Message]) -> int:
        ticket = self.producer.publish(messages)
        self._published.append((ticket, messages))
        return ticket

    def note(self, ticket: int) -> None:
        self._acknowledged.append((ticket, self._now_ms()))

    def latencies(self) -> Latencies:
        """Of every message, from its fire time; worked out after the run, not during it."""
        latencies = Latencies()
        moments = iter(self._acknowledged)
        acknowledged, at_ms = next(moments)
        for ticket, messages in self._published:
            while acknowledged < ticket:
                acknowledged, at_ms = next(moments)
            for message in messages:
                latencies.record(at_ms - decode_fire(message.value).due_ms)
        return latencies

    @property
    def acknowledged(self) -> int:
        return self.producer.acknowledged

    @property
    def room(self) -> int:
        return self.producer.room

    async def wait_acknowledged(self, ticket: int) -> None:
        await self.producer.wait_acknowledged(ticket)

    async def close(self) -> None:
        await self.producer.close()


def _clock(start_ms: int) -> Callable[[], float]:
    begun_s = time.monotonic()
    return lambda: start_ms + (time.monotonic() - begun_s) * 1000


async def fire_for(
    bus: Kafka, holdings: dict[int, Holding], start_ms: int, seconds: float
) -> tuple[Log, int]:
    """Tick for so long; what was noted, and through which time everything was fired."""
    watchers: list[Callable[[int], None]] = []

    def acknowledged(ticket: int) -> None:
        for watcher in watchers:
            watcher(ticket)

    producer = bus.producer(on_acknowledged=acknowledged)
    try:
        await warm(producer)
        now_ms = _clock(start_ms)
        log = Log(now_ms, producer)
        ticker = Ticker(holdings, Ledger(), log, now_ms=now_ms)
        watchers += [log.note, ticker.acknowledged]
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            ticker.tick(1)
            await trio.sleep(TICK_S)
        ticker.tick(1)
        await ticker.all_acknowledged()
    finally:
        await producer.close()
    return log, max(holding.wheel.stand_ms for holding in holdings.values())


async def warm(producer: Producer) -> None:
    """The driver asks the broker for an id of its own before it sends anything: not the fires' business."""
    await producer.wait_acknowledged(producer.publish(plain(0, 1)))


def plain(first: int, count: int) -> list[Message]:
    return [
        Message(_PLAIN_TOPIC, number % TOPIC_PARTITIONS, bytes(16), _PLAIN_VALUE)
        for number in range(first, first + count)
    ]


# --- What was fired, and what should have been --------------------------------------------------------


async def read_back(bus: Kafka) -> Counter[bytes]:
    """The execution ids of all that the topic of the mix holds."""
    found: Counter[bytes] = Counter()
    count = sum((await bus.end_offsets([_FIRES_TOPIC])).values())
    consumer = bus.consumer(f"bench-{time.monotonic_ns()}", [_FIRES_TOPIC])
    try:
        with trio.fail_after(READ_LIMIT_S):
            while found.total() < count:
                records = await consumer.take(5_000, 1.0)
                found.update(decode_fire(record.value).execution_id for record in records)
    finally:
        await consumer.close()
    return found


def expected_of(entries: Sequence[JobEntry], after_ms: int, through_ms: int) -> set[bytes]:
    """The ids of all times that the schedules have in the run, computed without wheel or holding."""
    return {
        fire_id(entry.job_id, entry.partition, at_ms)
        for entry in entries
        for at_ms in Timing(
            schedule_of(entry.schedule), entry.anchor_ms, entry.start_ms, entry.last_ms
        ).times_between(after_ms, through_ms)
    }
