"""The contract of `Bus` while its server is killed and frozen: no gap, nothing acknowledged lost, no hang.

The real half has a Kafka of its own, for this file: starting one takes longer than most of its tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.compose import jars
from shardwheel.compose.kafka import KafkaServer
from shardwheel.errors import UnavailableError
from shardwheel.ports import Bus, Consumer, Producer, Record, TopicSpec
from tests.contract.bus_rig import (
    HOUR_MS,
    PATIENCE_S,
    TAKE_S,
    BusRig,
    KafkaRig,
    MemoryRig,
    cycle,
    first_copies,
    make_topic,
    publish_all,
    take,
    take_until,
    unique,
    values_of,
)
from tests.servers import started

FROZEN_S = 3.0
# A restart takes 5 s on a quiet machine, and has taken a minute on a busy one.
RESTART_PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def harmed_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    jars.ensure()
    with started(KafkaServer(tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.servers)])
def rig(request: pytest.FixtureRequest) -> BusRig:
    if request.param == "memory":
        return MemoryRig()
    return KafkaRig(request.getfixturevalue("harmed_kafka"))


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> MockClock | None:
    """trio_test runs under the clock it is given: one that jumps for the twin, the real one for Kafka."""
    in_memory = "memory" in request.node.callspec.params.values()
    return MockClock(autojump_threshold=0) if in_memory else None


class Publisher:
    """Publishes cycles of consecutive numbers, as fast as there is room, until told to stop."""

    def __init__(self, bus: Bus, topic: str) -> None:
        self.published = 0
        self._stopped = False
        self._topic = topic
        self._producer = bus.producer()

    async def run(self) -> None:
        while not self._stopped:
            await self._publish(self._producer)
        await self._producer.wait_acknowledged(self._producer.publish([]))
        await self._producer.close()

    async def _publish(self, producer: Producer) -> None:
        try:
            producer.publish(cycle(self._topic, range(self.published, self.published + 20)))
            self.published += 20
        except UnavailableError:
            pass
        await trio.sleep(0.002)

    async def acknowledge_more(self) -> None:
        """Return when something is acknowledged that was published after this call."""
        await self._producer.wait_acknowledged(self._producer.publish([]) + 10)

    def stop(self) -> None:
        self._stopped = True


def check_whole(records: Iterable[Record], published: int) -> None:
    """Every number is there, and the first copies are in order: no gap, whatever came twice."""
    assert first_copies(records) == {number: list(range(number, published, 4)) for number in range(4)}


@trio_test
async def test_a_killed_server_costs_nothing(rig: BusRig, clock: MockClock | None) -> None:
    """Producer and consumer live through it. The consumer may read again what it had not committed."""
    with trio.fail_after(RESTART_PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus), unique("group")
        publisher = Publisher(bus, topic)
        consumer = bus.consumer(group, [topic])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publisher.run)
            records = await take(consumer, 100)
            await consumer.commit(records)
            await rig.kill()
            await rig.start()
            await publisher.acknowledge_more()
            publisher.stop()
        published = publisher.published
        records += await take_until(consumer, lambda more: len(set(values_of(records + more))) == published)
        check_whole(records, published)
        await consumer.commit(records)
        assert await bus.committed_offsets(group, [topic]) == await bus.end_offsets([topic])
        await consumer.close()


@trio_test
async def test_no_gap_when_the_server_is_frozen(rig: BusRig, clock: MockClock | None) -> None:
    """A hasty producer gives up on the frozen server and publishes all again, several times perhaps."""
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic = await make_topic(bus)
        publisher = Publisher(rig.hasty_bus(), topic)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publisher.run)
            await publisher.acknowledge_more()
            await rig.freeze()
            await trio.sleep(FROZEN_S)
            await rig.thaw()
            await publisher.acknowledge_more()
            publisher.stop()
        consumer = bus.consumer(unique("group"), [topic])
        records = await take(consumer, sum((await bus.end_offsets([topic])).values()))
        check_whole(records, publisher.published)
        await consumer.close()


@trio_test
async def test_a_frozen_server_hangs_nobody_and_gets_the_commit_later(
    rig: BusRig, clock: MockClock | None
) -> None:
    with trio.fail_after(PATIENCE_S):
        patient, hasty = rig.bus(), rig.hasty_bus()
        topic, group = await make_topic(patient), unique("group")
        await publish_all(patient, cycle(topic, range(100)))
        consumer = hasty.consumer(group, [topic])
        records = await take(consumer, 100)
        producer = hasty.producer()
        await rig.freeze()
        with pytest.raises(UnavailableError):
            await consumer.commit(records)
        with pytest.raises(UnavailableError):
            await hasty.generation([topic])
        producer.publish(cycle(topic, range(100, 110)))
        await producer.close()
        assert producer.acknowledged == 0
        assert await consumer.take(100, TAKE_S) == []
        await rig.thaw()
        # The owed commit goes out with a further take; should the session be over, all is read once more.
        while sum((await patient.committed_offsets(group, [topic])).values()) < 100:
            again = await consumer.take(100, TAKE_S)
            if again:
                await consumer.commit(again)
        await consumer.close()


@trio_test
async def test_a_consumer_reads_on_when_its_topic_was_missing(rig: BusRig, clock: MockClock | None) -> None:
    """Kafka's driver gives up on a topic that it knew before and did not find when it joined again."""
    with trio.fail_after(RESTART_PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus), unique("group")
        consumer = bus.consumer(group, [topic])
        await publish_all(bus, cycle(topic, range(8)))
        await consumer.commit(await take(consumer, 8))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_take_on, consumer)
            await rig.lose_all(group)
            nursery.cancel_scope.cancel()
        await bus.ensure_topics([TopicSpec(topic, 4, HOUR_MS)])
        await publish_all(bus, cycle(topic, range(100, 104)))
        assert set(values_of(await take(consumer, 4))) == set(range(100, 104))
        await consumer.close()


async def _take_on(consumer: Consumer) -> None:
    """There is nothing to take; a consumer lives by being asked."""
    while True:
        assert await consumer.take(1, TAKE_S) == []
