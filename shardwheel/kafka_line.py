"""One driver's life, from its making to its first failure: flights go in, and land or do not.

The acknowledgement of a topic partition's last message covers all of that flight before it, so only that
one has a callback; a callback a message would halve the throughput. After the first failure a line reports
nothing more: whoever owns it makes a new one and sends again what has not landed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import confluent_kafka
import trio

from shardwheel.cycles import Flight
from shardwheel.errors import UsageError
from shardwheel.kafka_settings import DriverLog
from shardwheel.ports import Message

LET_GO_LIMIT_S = 5.0
DROP_TRIES = 40

# A fatal error of the driver comes out of whatever serves its callbacks: as itself, or, when it goes on to
# serve further callbacks with that exception pending, as Python's complaint about that.
FATAL = (confluent_kafka.KafkaException, SystemError)


class Passage:
    """One flight on one line: handed over a topic partition at a time, landed with the last acknowledgement.

    A batch a topic partition, not a call a message: the driver then takes its locks once (measured: 650K
    messages a second against 490K at best). What it has no room for is always the end of a batch, so
    a batch goes on where it stopped.
    """

    __slots__ = ("_batches", "_flight", "_line", "_position", "_waits")

    def __init__(self, flight: Flight, line: Line) -> None:
        self._flight = flight
        self._line = line
        self._batches = deque(_batches(flight.messages))
        for _, _, batch in self._batches:
            batch[-1]["callback"] = self._reported
        self._waits = len(self._batches)
        self._position = 0

    def hand_over(self, driver: confluent_kafka.Producer, most: int) -> int:
        """Hand up to `most` further messages to the driver; fewer when its queue is full. How many?"""
        left = most
        while self._batches and left:
            topic, topic_partition, batch = self._batches[0]
            part = batch[self._position : self._position + left]
            taken = driver.produce_batch(topic, part, topic_partition)
            self._position += taken
            left -= taken
            if taken < len(part):
                _check_full(part[taken]["_error"])
                break
            if self._position == len(batch):
                self._batches.popleft()
                self._position = 0
        return most - left

    @property
    def handed_over(self) -> bool:
        return not self._batches

    def _reported(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if self._line.failure:
            return
        if error is not None:
            self._line.fail(f"{message.topic()} [{message.partition()}]: {error}")
            return
        self._waits -= 1
        if self._waits == 0:
            self._flight.landed = True


def _batches(messages: Sequence[Message]) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """What goes to each topic partition, in order, as the driver wants it. (Two small look-ups beat one of a
    new pair.)"""
    topics: defaultdict[str, defaultdict[int, list[dict[str, Any]]]]
    topics = defaultdict(lambda: defaultdict(list))
    for topic, topic_partition, key, value in messages:
        topics[topic][topic_partition].append({"key": key, "value": value})
    return [
        (topic, topic_partition, batch)
        for topic, of_topic in topics.items()
        for topic_partition, batch in of_topic.items()
    ]


def _check_full(error: confluent_kafka.KafkaError) -> None:
    """A full queue takes the rest later; anything else ends the line."""
    if error.code() != confluent_kafka.KafkaError._QUEUE_FULL:
        raise confluent_kafka.KafkaException(error)


class Line:
    """A driver, what waits to be handed to it, and why it can't be used any more, if so."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.failure = ""
        self.last_error = ""
        self._unsent: deque[Passage] = deque()
        try:
            self._driver: confluent_kafka.Producer | None = confluent_kafka.Producer(
                {**settings, "error_cb": self._note}, logger=DriverLog("producer")
            )
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            raise UsageError(f"kafka_settings: {error}", field="kafka_settings") from error

    def send(self, flight: Flight) -> None:
        self._unsent.append(Passage(flight, self))

    def hand_over(self, most: int) -> None:
        """Hand what waits to the driver, up to `most` messages; the rest waits for the next time."""
        if self._driver is None or self.failure:
            return
        try:
            while self._unsent and most > 0:
                most -= self._unsent[0].hand_over(self._driver, most)
                if not self._unsent[0].handed_over:
                    return
                self._unsent.popleft()
        except confluent_kafka.KafkaException as error:
            self.fail(str(error))

    def poll(self) -> None:
        """Serve the callbacks."""
        if self._driver is None:
            return
        try:
            self._driver.poll(0)
        except FATAL as error:
            self.fail(str(error))

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason

    def _note(self, error: confluent_kafka.KafkaError) -> None:
        self.last_error = error.str()

    async def let_go(self) -> None:
        """Drop the driver and what it holds, in a thread and in bounded time, cancelled or not.

        `Producer.close` would wait for ever for messages that can't be sent.
        """
        self.fail("let go")
        box, self._driver = [self._driver], None
        with trio.CancelScope(shield=True), trio.move_on_after(LET_GO_LIMIT_S):
            await trio.to_thread.run_sync(_drop, box, abandon_on_cancel=True)


def _drop(box: list[confluent_kafka.Producer | None]) -> None:
    """The last reference goes here: librdkafka joins its threads when it does. Before that all it holds is
    reported as purged, or it would never be freed. To a gapless producer a purge is a fatal error: `poll`
    raises that and can be called again, whereas `flush` goes on into callbacks with the exception pending
    (a crash was seen)."""
    driver = box.pop()
    if driver is None:
        return
    driver.purge()
    for _ in range(DROP_TRIES):
        with suppress(*FATAL):
            driver.poll(0.05)
        if len(driver) == 0:
            return
