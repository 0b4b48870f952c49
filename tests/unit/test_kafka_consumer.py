"""What a consumer makes of refused commits, rebalances and pauses: on a driver that does what a test says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as Place
from trio.testing import trio_test

from shardwheel.errors import UnavailableError
from shardwheel.kafka_consumer import COMMITS_APART_S, KafkaConsumer
from shardwheel.ports import Record


class FakeMessage:
    def __init__(self, topic_partition: int, offset: int) -> None:
        self._topic_partition = topic_partition
        self._offset = offset

    def topic(self) -> str:
        return "topic"

    def partition(self) -> int:
        return self._topic_partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"key"

    def value(self) -> None:
        return None

    def error(self) -> None:
        return None


class FakeDriver:
    """`poll` plays the next of `events`: a message, or something that happens. Commits wait in `asked`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.events: deque[FakeMessage | Callable[[], None]] = deque()
        self.asked: list[list[Place]] = []
        self.flowing: dict[int, bool] = {}
        self.waited_s: list[float] = []
        self._on_commit = settings["on_commit"]

    def subscribe(self, topics: list[str], on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self._on_assign, self._on_revoke = on_assign, on_revoke

    def assign(self, *numbers: int) -> None:
        self._on_assign(self, [Place("topic", number) for number in numbers])

    def revoke(self, *numbers: int) -> None:
        self._on_revoke(self, [Place("topic", number) for number in numbers])

    def answer(self, error: KafkaError | None = None) -> None:
        self._on_commit(error, self.asked[-1])

    def commit(self, offsets: list[Place], asynchronous: bool) -> None:
        assert asynchronous
        self.asked.append(offsets)

    def poll(self, timeout_s: float) -> FakeMessage | None:
        self.waited_s.append(timeout_s)
        event = self.events.popleft() if self.events else None
        if isinstance(event, FakeMessage) or event is None:
            return event
        event()
        return None

    def consume(self, most: int, _timeout: float) -> list[FakeMessage]:
        found: list[FakeMessage] = []
        while len(found) < most and self.events and isinstance(message := self.events[0], FakeMessage):
            self.events.popleft()
            found.append(message)
        return found

    def incremental_assign(self, places: list[Place]) -> None:
        self.flowing.update({place.partition: True for place in places})

    def pause(self, places: list[Place]) -> None:
        self.flowing.update({place.partition: False for place in places})

    def resume(self, places: list[Place]) -> None:
        self.flowing.update({place.partition: True for place in places})


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[FakeDriver]:
    made: list[FakeDriver] = []

    def make(settings: dict[str, Any]) -> FakeDriver:
        made.append(FakeDriver(settings))
        return made[-1]

    monkeypatch.setattr("confluent_kafka.Consumer", make)
    return made


class Now:
    s = 1_000.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    now = Now()
    monkeypatch.setattr("shardwheel.kafka_consumer.time.monotonic", lambda: now.s)
    return now


def make_consumer(drivers: list[FakeDriver], limit_s: float = 60) -> tuple[KafkaConsumer, FakeDriver]:
    consumer = KafkaConsumer({}, "group", ["topic"], limit_s=limit_s)
    driver = drivers[-1]
    driver.assign(0, 1)
    return consumer, driver


def record(topic_partition: int, offset: int) -> Record:
    return Record("topic", topic_partition, offset, b"key", b"")


@trio_test
async def test_a_refused_commit_is_asked_for_again(drivers: list[FakeDriver]) -> None:
    consumer, driver = make_consumer(drivers)
    driver.events.append(lambda: driver.answer(KafkaError(KafkaError.REBALANCE_IN_PROGRESS)))
    driver.events.append(lambda: driver.answer())
    await consumer.commit([record(0, 4)])
    assert [[(place.partition, place.offset) for place in asked] for asked in driver.asked] == [[(0, 5)]] * 2


@trio_test
async def test_a_commit_is_waited_for_in_short_waits_that_grow(drivers: list[FakeDriver]) -> None:
    """The driver's poll goes on waiting for a record after it has served the confirmation."""
    consumer, driver = make_consumer(drivers)
    driver.events.extend([lambda: None] * 9)
    driver.events.append(lambda: driver.answer())
    await consumer.commit([record(0, 4)])
    assert driver.waited_s[:4] == [0.001, 0.002, 0.004, 0.008]
    assert driver.waited_s[-2:] == [0.05, 0.05]


@trio_test
async def test_what_nobody_waits_for_goes_out_with_the_next_take_and_its_answer_brings_the_rest(
    drivers: list[FakeDriver], now: Now
) -> None:
    consumer, driver = make_consumer(drivers)
    consumer.commit_soon([record(0, 4)])
    assert await consumer.take(10, 0) == []
    consumer.commit_soon([record(0, 5)])
    assert await consumer.take(10, 0) == []
    assert [[place.offset for place in asked] for asked in driver.asked] == [[5]]  # One at a time.
    now.s += COMMITS_APART_S + 0.01
    driver.events.append(lambda: driver.answer())
    assert await consumer.take(10, 0) == []
    assert [[place.offset for place in asked] for asked in driver.asked] == [[5], [6]]


@trio_test
async def test_commits_that_nobody_waits_for_are_some_way_apart(drivers: list[FakeDriver], now: Now) -> None:
    consumer, driver = make_consumer(drivers)
    for offset in range(4, 8):
        consumer.commit_soon([record(0, offset)])
        driver.events.append(lambda: driver.answer())
        assert await consumer.take(10, 0.5) == []
        now.s += 0.01
    assert [[place.offset for place in asked] for asked in driver.asked] == [[5]]
    assert driver.waited_s[0] == 0.5
    assert max(driver.waited_s[1:]) <= COMMITS_APART_S  # Nor do they wait for a record.
    now.s += COMMITS_APART_S
    assert await consumer.take(10, 0.5) == []
    assert [[place.offset for place in asked] for asked in driver.asked] == [[5], [8]]


@trio_test
async def test_a_commit_that_is_waited_for_keeps_no_distance(drivers: list[FakeDriver], now: Now) -> None:
    consumer, driver = make_consumer(drivers)
    for offset in (4, 5):
        driver.events.append(lambda: driver.answer())
        await consumer.commit([record(0, offset)])
        now.s += 0.001
    assert [[place.offset for place in asked] for asked in driver.asked] == [[5], [6]]


@trio_test
async def test_waiting_for_a_commit_waits_for_what_was_owed_before(drivers: list[FakeDriver]) -> None:
    consumer, _driver = make_consumer(drivers, limit_s=0)
    consumer.commit_soon([record(0, 4)])
    with pytest.raises(UnavailableError):
        await consumer.commit([])


@trio_test
async def test_an_unanswered_commit_stays_owed_and_only_one_is_under_way(drivers: list[FakeDriver]) -> None:
    consumer, driver = make_consumer(drivers, limit_s=0)
    with pytest.raises(UnavailableError) as caught:
        await consumer.commit([record(0, 4)])
    assert caught.value.maybe_applied
    assert await consumer.take(10, 0) == []
    assert len(driver.asked) == 1
    driver.events.append(lambda: driver.answer(KafkaError(KafkaError._TIMED_OUT)))
    await consumer.take(10, 0)
    await consumer.take(10, 0)
    assert len(driver.asked) == 2


@trio_test
async def test_a_revoked_topic_partition_is_neither_committed_nor_read_on(drivers: list[FakeDriver]) -> None:
    consumer, driver = make_consumer(drivers)
    driver.events.extend([FakeMessage(0, 5), FakeMessage(1, 7), lambda: driver.revoke(0)])
    await consumer.commit([record(0, 4)])
    assert await consumer.take(10, 0) == [record(1, 7)]
    driver.events.extend([lambda: driver.answer(), lambda: driver.answer()])
    await consumer.commit([record(0, 4), record(1, 7)])
    assert [(place.partition, place.offset) for place in driver.asked[-1]] == [(1, 8)]


@trio_test
async def test_what_arrives_while_a_commit_waits_comes_next_and_in_order(drivers: list[FakeDriver]) -> None:
    consumer, driver = make_consumer(drivers)
    driver.events.extend([FakeMessage(0, 5), FakeMessage(0, 6), lambda: driver.answer()])
    await consumer.commit([record(0, 4)])
    driver.events.append(FakeMessage(0, 7))
    assert await consumer.take(2, 0) == [record(0, 5), record(0, 6)]
    assert await consumer.take(2, 0) == [record(0, 7)]


@trio_test
async def test_a_topic_partition_that_comes_during_a_pause_is_paused(drivers: list[FakeDriver]) -> None:
    consumer, driver = make_consumer(drivers)
    consumer.pause()
    driver.events.extend([lambda: driver.assign(2), FakeMessage(2, 0)])
    assert [await consumer.take(10, 0) for _ in range(2)] == [[], []]
    assert driver.flowing == {0: False, 1: False, 2: False}
    consumer.resume()
    assert await consumer.take(10, 0) == [record(2, 0)]
    assert driver.flowing == {0: True, 1: True, 2: True}
