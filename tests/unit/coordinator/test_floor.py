"""The claim floor, and what the leader tells of it, on the twins."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from trio.testing import MockClock, trio_test

from shardwheel.coordinator.floor import FloorMover
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.memory.loop_store import MemoryLoopStore, loop_server
from shardwheel.memory.pool import MemoryPool
from shardwheel.ports import Message, Watermark
from shardwheel.topics import JOB_TOPICS, job_topic, job_topics, workers_group

NOW_MS = 1_795_003_200_000
TOPIC = job_topic("short", 2)


def figure(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def lag() -> float | None:
    return figure("shardwheel_pool_lag", pool="short", priority="normal")


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@trio_test
async def test_the_leader_tells_how_far_workers_lag_and_how_old_the_floor_is(clock: MockClock) -> None:
    bus, store = MemoryBus(MemoryKafka()), MemoryLoopStore(MemoryPool(loop_server(partitions=1)))
    await bus.ensure_topics(job_topics(1))
    (state,) = await store.reset_to_floor(
        {0: 0},
        "a",
        kafka_generation=await bus.generation(JOB_TOPICS),
        identity=await store.identity(),
    )
    await store.store_watermarks([Watermark(0, state.epoch, NOW_MS - 5_000, 1)], state.identity)
    floor = FloorMover(store, bus, lambda: NOW_MS)
    producer = bus.producer()
    await producer.wait_acknowledged(producer.publish([Message(TOPIC, 0, b"k", b"v")] * 3))
    assert await floor.run_once() == 0
    assert lag() == 3
    consumer = bus.consumer(workers_group("short"), [TOPIC])
    await consumer.commit(await consumer.take(10, 1.0))
    assert await floor.run_once() == 1
    await floor.run_once()
    assert lag() == 0
    assert figure("shardwheel_floor_age_seconds") == 5.0
    floor.fall_silent()
    assert lag() is None and figure("shardwheel_floor_age_seconds") == 0
    await producer.close()
