"""A line and its passages on a driver that does what the test says; librdkafka's own is never reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from trio.testing import trio_test

from shardwheel.cycles import Flight
from shardwheel.errors import UsageError
from shardwheel.kafka_line import Line
from shardwheel.ports import Message


class FakeDriver:
    """Holds what was produced; `report` says that the oldest messages arrived."""

    def __init__(self, _settings: dict[str, Any], logger: object) -> None:
        self.produced: list[tuple[str, int, bytes]] = []
        self.callbacks: list[Callable[..., None] | None] = []
        self.queue_limit = 10_000
        self.poll_error: Exception | None = None
        self.refusal: int | None = None

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        """As the real one: what has no room, or is refused, is marked, and so is all that follows it."""
        for index, message in enumerate(messages):
            full = len(self.callbacks) >= self.queue_limit
            if self.refusal is not None or full:
                for rest in messages[index:]:
                    rest["_error"] = KafkaError(self.refusal or KafkaError._QUEUE_FULL)
                return index
            self.produced.append((topic, partition, message["value"]))
            self.callbacks.append(message.get("callback"))
        return len(messages)

    def report(self, count: int, error: KafkaError | None = None) -> None:
        for _ in range(count):
            callback = self.callbacks.pop(0)
            if callback is not None:
                callback(error, FakeReport())

    def poll(self, _timeout: float) -> None:
        if self.poll_error is not None:
            raise self.poll_error

    def purge(self) -> None:
        self.report(len(self.callbacks), KafkaError(KafkaError._PURGE_QUEUE))

    def __len__(self) -> int:
        return len(self.callbacks)


class FakeReport:
    def topic(self) -> str:
        return "topic"

    def partition(self) -> int:
        return 0


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[FakeDriver]:
    made: list[FakeDriver] = []

    def make(settings: dict[str, Any], logger: object) -> FakeDriver:
        made.append(FakeDriver(settings, logger))
        return made[-1]

    monkeypatch.setattr("confluent_kafka.Producer", make)
    return made


def flight_of(*places: tuple[str, int]) -> Flight:
    return Flight(1, [Message(*place, b"key", b"%d" % index) for index, place in enumerate(places)])


def test_only_the_last_message_of_each_topic_partition_has_a_callback(drivers: list[FakeDriver]) -> None:
    line = Line({})
    flight = flight_of(("a", 0), ("b", 0), ("a", 0), ("a", 1), ("b", 0), ("a", 1))
    line.send(flight)
    line.hand_over(100)
    (driver,) = drivers
    assert driver.produced == [
        ("a", 0, b"0"),
        ("a", 0, b"2"),
        ("a", 1, b"3"),
        ("a", 1, b"5"),
        ("b", 0, b"1"),
        ("b", 0, b"4"),
    ]
    assert [callback is not None for callback in driver.callbacks] == [False, True] * 3
    driver.report(5)
    assert not flight.landed
    driver.report(1)
    assert flight.landed


def test_a_refused_message_ends_the_line(drivers: list[FakeDriver]) -> None:
    line = Line({})
    drivers[0].refusal = KafkaError._UNKNOWN_PARTITION
    line.send(flight_of(("a", 9)))
    line.hand_over(100)
    assert "partition" in line.failure.lower()


def test_a_full_queue_and_small_steps_lose_and_repeat_nothing(drivers: list[FakeDriver]) -> None:
    line = Line({})
    (driver,) = drivers
    driver.queue_limit = 3
    flights = [flight_of(*[("a", 0)] * 5), flight_of(*[("b", 0)] * 5)]
    for flight in flights:
        line.send(flight)
    while not flights[1].landed:
        line.hand_over(2)
        driver.report(len(driver.callbacks))
    assert [topic for topic, _, _ in driver.produced] == ["a"] * 5 + ["b"] * 5
    assert [value for _, _, value in driver.produced] == [b"0", b"1", b"2", b"3", b"4"] * 2
    assert flights[0].landed


def test_a_failed_delivery_ends_the_line_and_what_lands_later_does_not_count(
    drivers: list[FakeDriver],
) -> None:
    line = Line({})
    flights = [flight_of(("a", 0)), flight_of(("b", 0))]
    for flight in flights:
        line.send(flight)
    line.hand_over(100)
    drivers[0].report(1, KafkaError(KafkaError._UNKNOWN_TOPIC))
    drivers[0].report(1)
    assert "topic [0]" in line.failure
    assert not flights[0].landed and not flights[1].landed


@pytest.mark.parametrize("error", [KafkaException("fatal"), SystemError("with an exception set")])
def test_a_fatal_error_ends_the_line(drivers: list[FakeDriver], error: Exception) -> None:
    line = Line({})
    drivers[0].poll_error = error
    line.poll()
    line.send(flight_of(("a", 0)))
    line.hand_over(100)
    assert line.failure
    assert drivers[0].produced == []


@trio_test
async def test_letting_go_frees_what_the_driver_held(drivers: list[FakeDriver]) -> None:
    line = Line({})
    flight = flight_of(("a", 0))
    line.send(flight)
    line.hand_over(100)
    await line.let_go()
    assert drivers[0].callbacks == []
    assert not flight.landed
    line.poll()
    line.hand_over(100)


def test_wrong_settings_are_the_callers_business() -> None:
    with pytest.raises(UsageError, match=r"no\.such\.setting"):
        Line({"no.such.setting": "1"})
