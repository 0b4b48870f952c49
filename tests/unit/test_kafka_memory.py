"""What the in-memory Kafka can be told to do wrong. What it does right is in tests/contract/test_bus.py."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.ports import Message, TopicPartition, TopicSpec

SPEC = TopicSpec("topic", 2, 1000)


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


def messages(*values: int) -> list[Message]:
    return [Message("topic", value % 2, b"key", b"%d" % value) for value in values]


async def all_values(bus: MemoryBus) -> list[int]:
    consumer = bus.consumer("reader", ["topic"])
    values = [int(record.value) for record in await consumer.take(1_000, 0)]
    await consumer.close()
    return values


@trio_test
async def test_slow_acknowledgements(clock: MockClock) -> None:
    server = MemoryKafka()
    server.create([SPEC])
    server.ack_delay_s = 5
    producer = MemoryBus(server).producer()
    start = trio.current_time()
    await producer.wait_acknowledged(producer.publish(messages(1)))
    assert trio.current_time() - start == pytest.approx(5)


@trio_test
async def test_lost_acknowledgements_become_duplicates_never_gaps(clock: MockClock) -> None:
    torn = 0
    for seed in range(20):
        server = MemoryKafka(seed)
        server.create([SPEC])
        bus = MemoryBus(server)
        server.lose_acks = True
        producer = bus.producer()
        ticket = producer.publish(messages(0, 1, 2, 3))
        await trio.sleep(1)
        assert producer.acknowledged == 0
        stored = await all_values(bus)
        torn += 0 < len(stored) < 4
        server.lose_acks = False
        await producer.wait_acknowledged(ticket)
        assert sorted(await all_values(bus)) == sorted([*stored, 0, 1, 2, 3])
    assert torn


@trio_test
async def test_duplicates(clock: MockClock) -> None:
    server = MemoryKafka()
    server.create([SPEC])
    server.duplicate_chance = 1.0
    bus = MemoryBus(server)
    producer = bus.producer()
    await producer.wait_acknowledged(producer.publish(messages(0, 2)))
    assert await all_values(bus) == [0, 2, 0, 2]


@trio_test
async def test_shuffle_mixes_topic_partitions_but_keeps_each_in_order(clock: MockClock) -> None:
    server = MemoryKafka()
    server.create([SPEC])
    server.shuffle = True
    bus = MemoryBus(server)
    producer = bus.producer()
    await producer.wait_acknowledged(producer.publish(messages(*range(6))))
    orders = {tuple(await all_values(bus)) for _ in range(20)}
    assert orders == {(0, 2, 4, 1, 3, 5), (1, 3, 5, 0, 2, 4)}


@trio_test
async def test_a_commit_whose_answer_is_lost_is_stored(clock: MockClock) -> None:
    server = MemoryKafka()
    server.create([SPEC])
    bus = MemoryBus(server)
    producer = bus.producer()
    await producer.wait_acknowledged(producer.publish(messages(0, 2)))
    consumer = bus.consumer("group", ["topic"])
    records = await consumer.take(10, 0)
    server.lose_commit_answers = True
    with pytest.raises(UnavailableError) as caught:
        await consumer.commit(records)
    assert caught.value.maybe_applied
    assert await bus.committed_offsets("group", ["topic"]) == {TopicPartition("topic", 0): 2}


@trio_test
async def test_a_crashed_process_sends_and_reads_nothing_more(clock: MockClock) -> None:
    server = MemoryKafka()
    server.create([SPEC])
    bus, other = MemoryBus(server), MemoryBus(server)
    producer, consumer = bus.producer(), bus.consumer("reader", ["topic"])
    producer.publish(messages(1))
    bus.crash()
    await trio.sleep(1)
    survivor = other.producer()
    await survivor.wait_acknowledged(survivor.publish(messages(2)))
    assert await all_values(other) == [2]
    assert producer.acknowledged == 0
    await consumer.close()


@trio_test
async def test_wiped_data_is_gone_with_its_topics(clock: MockClock) -> None:
    server = MemoryKafka()
    server.create([SPEC])
    bus = MemoryBus(server)
    before = await bus.generation(["topic"])
    server.wipe()
    with pytest.raises(NotFoundError):
        await bus.end_offsets(["topic"])
    server.create([SPEC])
    assert await bus.generation(["topic"]) != before
