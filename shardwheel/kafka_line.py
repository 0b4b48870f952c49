"""One driver's life, from its making to its first failure: flights go in, and land or do not.

The acknowledgement of a topic partition's last message covers all of that flight before it, so only that
one has a callback; a callback a message would halve the throughput. After the first failure a line reports
nothing more: whoever owns it makes a new one and sends again what has not landed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import length_hint
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
    """One flight on one line: handed over piece by piece, landed with its last acknowledgement."""

    __slots__ = ("_ends", "_flight", "_line", "_position", "_waits")

    def __init__(self, flight: Flight, line: Line) -> None:
        self._flight = flight
        self._line = line
        self._ends = deque(_ends(flight.messages))
        self._waits = len(self._ends)
        self._position = 0

    def hand_over(self, driver: confluent_kafka.Producer, most: int) -> int:
        """Hand up to `most` further messages to the driver; fewer when its queue is full. How many?"""
        start, stop = self._position, min(self._position + most, len(self._flight.messages))
        with suppress(BufferError):
            while self._position < stop:
                if self._position == self._ends[0]:
                    self._hand_over_end(driver)
                else:
                    self._hand_over_run(driver, min(self._ends[0], stop))
        return self._position - start

    def _hand_over_run(self, driver: confluent_kafka.Producer, stop: int) -> None:
        """The hot path: it counts only when it must, by what the iterator has left."""
        produce, run = driver.produce, iter(self._flight.messages[self._position : stop])
        try:
            for topic, topic_partition, key, value in run:
                produce(topic, value, key, topic_partition)
        except BufferError:
            self._position = stop - length_hint(run) - 1
            raise
        self._position = stop

    def _hand_over_end(self, driver: confluent_kafka.Producer) -> None:
        topic, topic_partition, key, value = self._flight.messages[self._position]
        driver.produce(topic, value, key, topic_partition, self._reported)
        self._ends.popleft()
        self._position += 1

    @property
    def handed_over(self) -> bool:
        return self._position == len(self._flight.messages)

    def _reported(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if self._line.failure:
            return
        if error is not None:
            self._line.fail(f"{message.topic()} [{message.partition()}]: {error}")
            return
        self._waits -= 1
        if self._waits == 0:
            self._flight.landed = True


def _ends(messages: Sequence[Message]) -> list[int]:
    """Where the topic partitions' last messages stand. (Two small look-ups beat one of a new pair.)"""
    last: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for index, message in enumerate(messages):
        last[message[0]][message[1]] = index
    return sorted(index for of_topic in last.values() for index in of_topic.values())


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
