"""`shardctl bench tick`: from a fire's time to the broker's acknowledgement, for every single fire.

A shard's worth of the mix is held, due at the rate asked for; the real ticker fires it on the real producer,
each few milliseconds, by the monotonic clock. The latency counts from the fire time, so a tick that comes
late or stalls is in the figures of all that was due meanwhile. Afterwards the topics are read back and
compared with what the schedules say: what is not there is missed, what is there twice is doubled.

The reference is the same producer alone, in the same process before the shard's run: as many messages at a
time, as often, from the call to the acknowledgement.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from shardwheel.bench.embedded import embedded_kafka
from shardwheel.bench.measure import Latencies, machine
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.bench.stored import TOPIC_PARTITIONS, entries_of, hold
from shardwheel.ids import fire_id
from shardwheel.job import JobEntry
from shardwheel.kafka import Kafka
from shardwheel.ports import Message, Producer
from shardwheel.schedule import schedule_of
from shardwheel.service import quieten_collector
from shardwheel.shard.holding import Holding
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.shard import TICK_S
from shardwheel.shard.ticker import Ticker
from shardwheel.timing import Timing
from shardwheel.topics import job_topic, job_topics
from shardwheel.wire import decode_fire

HELD: Final = 333_000
RATE_PER_S: Final = 2_000.0
START_MS: Final = 1_795_003_200_000
_FIRES_TOPIC: Final = job_topic("short", 2)
# A topic that the shard's fires do not use, and messages about as large as they are.
_PLAIN_TOPIC: Final = job_topic("long", 3)
_PLAIN_VALUE: Final = bytes(80)
_READ_LIMIT_S: Final = 600.0

Report = dict[str, Any]


def bench_tick(held: int, rate_per_s: float, seconds: float, say: Callable[[str], None]) -> Report:
    quieten_collector()
    with embedded_kafka(say) as bootstrap:
        return trio.run(measure_tick, bootstrap, held, rate_per_s, seconds, say)


async def measure_tick(
    bootstrap: str, held: int, rate_per_s: float, seconds: float, say: Callable[[str], None]
) -> Report:
    bus = Kafka(bootstrap)
    await bus.ensure_topics(job_topics(TOPIC_PARTITIONS))
    say(f"holding {held:,} jobs")
    entries = list(entries_of(held, START_MS, rate_per_s))
    holdings = hold(entries, START_MS)
    say("the producer alone")
    bare = await _bare(bus, rate_per_s, seconds / 4)
    say(f"firing {rate_per_s:g} a second")
    log, through_ms = await _fire(bus, holdings, seconds)
    say("reading the topics back")
    found = await _read_back(bus)
    expected = _expected(entries, through_ms)
    latencies = log.latencies()
    return {
        "held": held,
        "rate": rate_per_s,
        "p50_ms": round(latencies.percentile_ms(50), 3),
        "p99_ms": round(latencies.percentile_ms(99), 3),
        "max_ms": round(latencies.max_ms, 3),
        "bare_ack_p99_ms": round(bare.percentile_ms(99), 3),
        "missed": len(expected - found.keys()),
        "doubled": sum(found.values()) - len(found),
        "unexpected": len(found.keys() - expected),
        "fires": latencies.count,
        "machine": machine(),
    }


# --- The shard ----------------------------------------------------------------------------------------


class _Log:
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


def _clock() -> Callable[[], float]:
    begun_s = time.monotonic()
    return lambda: START_MS + (time.monotonic() - begun_s) * 1000


async def _fire(bus: Kafka, holdings: dict[int, Holding], seconds: float) -> tuple[_Log, int]:
    """Tick for so long; what was noted, and through which time everything was fired."""
    watchers: list[Callable[[int], None]] = []

    def acknowledged(ticket: int) -> None:
        for watcher in watchers:
            watcher(ticket)

    producer = bus.producer(on_acknowledged=acknowledged)
    try:
        await _warm(producer)
        now_ms = _clock()
        log = _Log(now_ms, producer)
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


async def _warm(producer: Producer) -> None:
    """The driver asks the broker for an id of its own before it sends anything: not the fires' business."""
    await producer.wait_acknowledged(producer.publish(_plain(0, 1)))


def _plain(first: int, count: int) -> list[Message]:
    return [
        Message(_PLAIN_TOPIC, number % TOPIC_PARTITIONS, bytes(16), _PLAIN_VALUE)
        for number in range(first, first + count)
    ]


# --- The reference ------------------------------------------------------------------------------------


async def _bare(bus: Kafka, rate_per_s: float, seconds: float) -> Latencies:
    """Publish at the rate, on the ticker's beat."""
    latencies = Latencies()
    under_way: deque[tuple[int, float, int]] = deque()

    def acknowledged(ticket: int) -> None:
        while under_way and under_way[0][0] <= ticket:
            _, at_s, count = under_way.popleft()
            latencies.record((time.monotonic() - at_s) * 1000, count)

    producer = bus.producer(on_acknowledged=acknowledged)
    try:
        await _warm(producer)
        sent, begun_s = 0, time.monotonic()
        while sent < int(seconds * rate_per_s):
            now_s = time.monotonic()
            count = int((now_s - begun_s) * rate_per_s) - sent
            if count:
                under_way.append((producer.publish(_plain(sent, count)), now_s, count))
                sent += count
            await trio.sleep(TICK_S)
        with trio.fail_after(_READ_LIMIT_S):
            while under_way:
                await trio.sleep(TICK_S)
    finally:
        await producer.close()
    return latencies


# --- What was fired, and what should have been --------------------------------------------------------


async def _read_back(bus: Kafka) -> Counter[bytes]:
    """The execution ids of all that the topic of the mix holds."""
    found: Counter[bytes] = Counter()
    count = sum((await bus.end_offsets([_FIRES_TOPIC])).values())
    consumer = bus.consumer(f"bench-{time.monotonic_ns()}", [_FIRES_TOPIC])
    try:
        with trio.fail_after(_READ_LIMIT_S):
            while found.total() < count:
                records = await consumer.take(5_000, 1.0)
                found.update(decode_fire(record.value).execution_id for record in records)
    finally:
        await consumer.close()
    return found


def _expected(entries: Sequence[JobEntry], through_ms: int) -> set[bytes]:
    """The ids of all times that the schedules have in the run, computed without wheel or holding."""
    return {
        fire_id(entry.job_id, entry.partition, at_ms)
        for entry in entries
        for at_ms in Timing(
            schedule_of(entry.schedule), entry.anchor_ms, entry.start_ms, entry.last_ms
        ).times_between(START_MS, through_ms)
    }


def print_result(result: Report) -> None:
    labels = {
        "p50_ms": "fire time to acknowledgement, p50, ms",
        "p99_ms": "  p99, ms",
        "max_ms": "  longest, ms",
        "bare_ack_p99_ms": "bare acknowledgement, p99, ms",
        "fires": "fires",
        "missed": "missed",
        "doubled": "doubled",
    }
    rows = [[label, result[name]] for name, label in labels.items()]
    print_table(f"{result['held']:,} held, {result['rate']:g} fires a second", ["", ""], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    labels = {"p50_ms": "p50", "p99_ms": "p99", "max_ms": "longest", "bare_ack_p99_ms": "bare p99"}
    bars = {label: float(result[name]) for name, label in labels.items()}
    title = f"{result['held']:,} held, {result['rate']:g} fires a second"
    save_picture(path, title, [Bars("Fire time to acknowledgement", "ms", bars)])
