"""The contract of `Bus`: the same for Kafka and for its in-memory twin."""

from __future__ import annotations

from operator import itemgetter

import pytest
import trio
from trio.testing import trio_test

from shardwheel.errors import NotFoundError, UnavailableError, UsageError
from shardwheel.lag import lag_of
from shardwheel.ports import Consumer, Message, TopicPartition, TopicSpec
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


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.servers)])
def rig(request: pytest.FixtureRequest) -> BusRig:
    if request.param == "memory":
        return MemoryRig()
    return KafkaRig(request.getfixturevalue("kafka_server"))


# --- The producer


@trio_test
async def test_acknowledges_a_prefix_and_tells_the_observer_first(rig: BusRig) -> None:
    told: list[tuple[int, int]] = []
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic = await make_topic(bus)
        producer = bus.producer(lambda ticket: told.append((ticket, producer.acknowledged)))
        cycles: list[list[Message]] = [cycle(topic, [1, 2, 3]), [], cycle(topic, [4]), [], []]
        tickets = [producer.publish(messages) for messages in cycles]
        assert (tickets, told, producer.acknowledged) == ([1, 2, 3, 4, 5], [], 0)
        for ticket in tickets:
            await producer.wait_acknowledged(ticket)
            assert producer.acknowledged >= ticket
            assert told[-1][0] == producer.acknowledged
        assert all(before < ticket for ticket, before in told)
        assert producer.publish([]) == 6
        assert producer.acknowledged == 5
        await producer.wait_acknowledged(6)
        await producer.close()


@trio_test
async def test_keeps_the_order_of_each_topic_partition(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic = await make_topic(bus)
        producer = bus.producer()
        for start in range(0, 3_000, 30):
            producer.publish(cycle(topic, range(start, start + 30)))
            await trio.lowlevel.checkpoint()
        await producer.wait_acknowledged(100)  # `close` alone would wait no longer than its own limit.
        await producer.close()
        consumer = bus.consumer(unique("group"), [topic])
        records = await take(consumer, 3_000)
        await consumer.close()
    assert first_copies(records) == {number: list(range(number, 3_000, 4)) for number in range(4)}
    assert {record.key for record in records} == {b"key"}


@trio_test
async def test_refuses_what_has_no_room_and_takes_nothing_of_it(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus(buffer_messages=10)
        topic = await make_topic(bus)
        producer = bus.producer()
        producer.publish(cycle(topic, range(8)))
        with pytest.raises(UnavailableError):
            producer.publish(cycle(topic, range(100, 103)))
        assert producer.room == 2
        assert producer.publish(cycle(topic, range(8, 10))) == 2
        await producer.wait_acknowledged(2)
        assert producer.room == 10
        larger_than_the_buffer = producer.publish(cycle(topic, range(10, 40)))
        assert producer.room == 0
        await producer.wait_acknowledged(larger_than_the_buffer)
        await producer.close()
        consumer = bus.consumer(unique("group"), [topic])
        assert sorted(values_of(await take(consumer, 40))) == list(range(40))
        await consumer.close()


@trio_test
async def test_what_can_not_be_delivered_yet_is_delivered_later(rig: BusRig) -> None:
    """The real producer is told that its deliveries failed, and starts over until they do not."""
    with trio.fail_after(PATIENCE_S):
        spec = TopicSpec(unique("bus"), 1, HOUR_MS)
        producer = rig.hasty_bus().producer()
        tickets = [producer.publish(cycle(spec.name, [number], 1)) for number in range(10)]
        with trio.move_on_after(1):
            await producer.wait_acknowledged(1)
        assert producer.acknowledged == 0
        await rig.bus().ensure_topics([spec])
        tickets += [producer.publish(cycle(spec.name, [number], 1)) for number in range(10, 20)]
        await producer.wait_acknowledged(tickets[-1])
        await producer.close()
        consumer = rig.bus().consumer(unique("group"), [spec.name])
        records = await take_until(consumer, lambda records: len(set(values_of(records))) == 20)
        assert first_copies(records) == {0: list(range(20))}
        await consumer.close()


@trio_test
async def test_refuses_a_message_that_no_broker_takes(rig: BusRig) -> None:
    producer = rig.bus_without_server().producer()
    with pytest.raises(UsageError):
        producer.publish([Message("any", 0, b"key", bytes(1_000_000))])
    assert producer.room == 10_000
    await producer.close()


@trio_test
async def test_a_server_out_of_reach_blocks_nobody(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus_without_server(buffer_messages=10)
        producer = bus.producer()
        ticket = producer.publish(cycle("any", range(10)))
        with pytest.raises(UnavailableError):
            producer.publish(cycle("any", [10]))
        with pytest.raises(UnavailableError):
            await bus.end_offsets(["any"])
        await producer.close()
        assert producer.acknowledged == 0
        with pytest.raises(UnavailableError):
            await producer.wait_acknowledged(ticket)
        consumer = bus.consumer(unique("group"), ["any"])
        assert await consumer.take(10, TAKE_S) == []
        await consumer.close()


# --- The consumer


@trio_test
async def test_a_group_goes_on_where_it_committed(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus, 1), unique("group")
        await publish_all(bus, cycle(topic, range(10), 1))
        first = bus.consumer(group, [topic])
        records = await take(first, 10)
        await first.commit(records[:4])
        await first.close()
        second = bus.consumer(group, [topic])
        again = await take(second, 6)
        assert values_of(again) == [4, 5, 6, 7, 8, 9]
        await second.commit(again)
        assert await bus.committed_offsets(group, [topic]) == {TopicPartition(topic, 0): 10}
        await second.commit(again[:2])
        assert await bus.committed_offsets(group, [topic]) == {TopicPartition(topic, 0): 10}
        assert not first.gaps | second.gaps
        await second.close()


@trio_test
async def test_a_commit_that_nobody_waits_for_is_stored_while_takes_go_on(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus, 1), unique("group")
        await publish_all(bus, cycle(topic, range(10), 1))
        consumer = bus.consumer(group, [topic])
        records = await take(consumer, 10)
        consumer.commit_soon(records[:4])
        consumer.commit_soon(records)
        while await bus.committed_offsets(group, [topic]) != {TopicPartition(topic, 0): 10}:
            assert await consumer.take(7, TAKE_S) == []
        await consumer.close()


@trio_test
async def test_takes_no_more_than_asked_for(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic = await make_topic(bus)
        await publish_all(bus, cycle(topic, range(50)))
        consumer = bus.consumer(unique("group"), [topic])
        seen: list[int] = []
        while len(seen) < 50:
            records = await consumer.take(7, TAKE_S)
            assert len(records) <= 7
            seen += values_of(records)
            # A commit waits for its confirmation, and what arrives meanwhile must not get lost.
            await consumer.commit(records)
        assert sorted(seen) == list(range(50))
        await consumer.close()


@trio_test
async def test_pause_takes_nothing_and_resume_misses_nothing(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic = await make_topic(bus)
        await publish_all(bus, cycle(topic, range(20)))
        consumer = bus.consumer(unique("group"), [topic])
        records = await consumer.take(5, PATIENCE_S)
        consumer.pause()
        await publish_all(bus, cycle(topic, range(20, 40)))
        for _ in range(5):
            assert await consumer.take(100, TAKE_S) == []
        await consumer.commit(records)
        consumer.resume()
        records += await take(consumer, 40 - len(records))
        assert sorted(values_of(records)) == list(range(40))
        assert first_copies(records) == {number: list(range(number, 40, 4)) for number in range(4)}
        await consumer.close()


@trio_test
async def test_two_members_share_and_the_last_one_has_all(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus), unique("group")
        producer = bus.producer()
        one, two = bus.consumer(group, [topic]), bus.consumer(group, [topic])
        readers: dict[int, tuple[int, Consumer]] = {}

        async def read(*members: Consumer) -> None:
            """A further message to each topic partition; who reads the latest one of each?"""
            producer.publish(cycle(topic, range(4)))
            for member in members:
                for record in await member.take(100, TAKE_S):
                    latest = readers.get(record.topic_partition, (0, member))
                    readers[record.topic_partition] = max(latest, (record.offset, member), key=itemgetter(0))

        def count(member: Consumer) -> int:
            return sum(reader is member for _, reader in readers.values())

        while (count(one), count(two)) != (2, 2):
            await read(one, two)
        await two.close()
        while count(one) != 4:
            await read(one)
        await one.close()
        await producer.close()


@trio_test
async def test_a_gap_is_noticed_and_passed(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus, 1), unique("group")
        place = TopicPartition(topic, 0)
        await publish_all(bus, cycle(topic, range(10), 1))
        first = bus.consumer(group, [topic])
        records = await take(first, 10)
        await first.commit(records[:2])
        await first.close()
        await rig.trim(place, 5)
        assert await bus.start_offsets([topic]) == {place: 5}
        second = bus.consumer(group, [topic])
        records = await take(second, 5)
        assert values_of(records) == [5, 6, 7, 8, 9]
        assert second.gaps == {place}
        await second.commit(records)
        assert await bus.committed_offsets(group, [topic]) == {place: 10}
        await second.close()
        fresh = bus.consumer(unique("group"), [topic])
        assert len(await take(fresh, 5)) == 5
        assert not fresh.gaps
        await fresh.close()


@trio_test
async def test_a_running_consumer_reads_on_in_new_data(rig: BusRig) -> None:
    """The consumer stands at 10 when there are 3 records: waiting for the eleventh would lose them."""
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        spec = TopicSpec(unique("bus"), 1, HOUR_MS)
        await bus.ensure_topics([spec])
        await publish_all(bus, cycle(spec.name, range(10), 1))
        consumer = bus.consumer(unique("group"), [spec.name])
        await consumer.commit(await take(consumer, 10))
        await rig.lose_data(spec)
        await publish_all(bus, cycle(spec.name, range(100, 103), 1))
        await take_until(consumer, lambda records: {100, 101, 102} == set(values_of(records)))
        await consumer.close()


# --- Topics and offsets


@trio_test
async def test_topics_are_made_once_and_never_with_another_number(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        specs = [TopicSpec(unique("bus"), number, HOUR_MS) for number in (1, 3)]
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(bus.ensure_topics, specs)
        await bus.ensure_topics(specs)
        assert len(await bus.end_offsets([spec.name for spec in specs])) == 4
        with pytest.raises(UsageError, match=r"has 3 topic partitions, not 5"):
            await bus.ensure_topics([specs[0], specs[1]._replace(topic_partitions=5)])


@trio_test
async def test_generation_names_the_data(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        spec = TopicSpec(unique("bus"), 2, HOUR_MS)
        with pytest.raises(NotFoundError, match=spec.name):
            await bus.generation([spec.name])
        await bus.ensure_topics([spec])
        generation = await bus.generation([spec.name])
        await publish_all(bus, cycle(spec.name, range(4), 2))
        assert await rig.bus().generation([spec.name]) == generation
        await rig.lose_data(spec)
        assert await bus.generation([spec.name]) != generation


@trio_test
async def test_offsets(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus, 2), unique("group")
        await publish_all(bus, cycle(topic, [0, 2, 4, 1], 2))
        even, odd = TopicPartition(topic, 0), TopicPartition(topic, 1)
        assert await bus.start_offsets([topic]) == {even: 0, odd: 0}
        assert await bus.end_offsets([topic]) == {even: 3, odd: 1}
        assert await bus.committed_offsets(group, [topic]) == {}
        consumer = bus.consumer(group, [topic])
        records = await take(consumer, 4)
        await consumer.commit(record for record in records if record.value in (b"0", b"2"))
        assert await bus.committed_offsets(group, [topic]) == {even: 2}
        await consumer.close()


@trio_test
async def test_a_groups_lag_is_what_it_has_not_committed(rig: BusRig) -> None:
    with trio.fail_after(PATIENCE_S):
        bus = rig.bus()
        topic, group = await make_topic(bus), unique("group")
        assert await lag_of(bus, group, [topic]) == 0
        await publish_all(bus, cycle(topic, range(10)))
        consumer = bus.consumer(group, [topic])
        records = await take(consumer, 10)
        assert await lag_of(bus, group, [topic]) == 10
        await consumer.commit(records)
        assert await lag_of(bus, group, [topic]) == 0
        await consumer.close()
