"""The Kafka consumer: batches in, offsets committed by hand after the claim.

All calls into the driver run in threads, one at a time for each consumer: pausing beside a poll has been
seen to stop both. Commits go out asynchronously and are confirmed by a callback that `poll` serves, since a
synchronous one hangs for as long as the broker is frozen. Records that arrive while a commit waits for its
confirmation are kept for the next `take`.

A commit that fails is sent again with every further call: one that quietly got lost would hold back the
claim floor of an idle topic partition for ever. It never decides what to do about a gap; it only notices.

A member that joins again while its topic is missing (Kafka came back without its data, and nobody has made
the topics anew yet) is given nothing, and librdkafka 2.16 does not see that the topic comes back: it takes a
topic that it has known for unchanged, and waits for ever. So a consumer that lost a topic's partitions and
was given none of it since joins anew by itself, after some seconds, then ever less often: in a group with
more members than topic partitions, holding nothing is all right.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import confluent_kafka
import trio

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.kafka_commits import Commits, offsets_after
from shardwheel.kafka_settings import DriverLog, consumer_settings
from shardwheel.logs import get_logger
from shardwheel.ports import Record, TopicPartition

# `poll` goes on waiting for a record after it has served the confirmation: so ask in short waits, that grow.
FIRST_CONFIRM_POLL_S = 0.001
CONFIRM_POLL_S = 0.05
# For a lone record the broker's part in a commit is as much work as its way to us: so those that nobody waits
# for follow each other at this distance.
COMMITS_APART_S = 0.05
UNANSWERED_S = 60.0
CLOSE_LIMIT_S = 10.0
FIRST_REJOIN_S = 5.0
LONGEST_REJOIN_S = 60.0

_Answer = TypeVar("_Answer")
_Place = confluent_kafka.TopicPartition


class KafkaConsumer:
    """`ports.Consumer` on confluent-kafka."""

    def __init__(
        self, settings: Mapping[str, Any], group: str, topics: Sequence[str], *, limit_s: float
    ) -> None:
        self._log = get_logger(edge="kafka", client="consumer", group=group)
        self._limit_s = limit_s
        self._one_at_a_time = trio.CapacityLimiter(1)
        self._commits = Commits()
        self._next_commit_at = self._asked_at = 0.0
        self._ahead: deque[Record] = deque()
        self._gaps: frozenset[TopicPartition] = frozenset()
        self._pause_wanted = self._paused = self._closed = False
        self._topics = list(topics)
        self._lost_topics: frozenset[str] = frozenset()
        self._rejoin_s = FIRST_REJOIN_S
        self._rejoin_at = 0.0
        self._driver = self._open(consumer_settings(settings, group))
        self._join()

    def _open(self, settings: dict[str, Any]) -> confluent_kafka.Consumer:
        callbacks = {"on_commit": self._on_commit, "logger": DriverLog("consumer")}
        try:
            return confluent_kafka.Consumer({**settings, **callbacks})
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            raise UsageError(f"kafka_settings: {error}", field="kafka_settings") from error

    def _join(self) -> None:
        self._driver.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    @property
    def gaps(self) -> frozenset[TopicPartition]:
        return self._gaps

    def pause(self) -> None:
        self._pause_wanted = True

    def resume(self) -> None:
        self._pause_wanted = False

    async def take(self, most: int, wait_s: float) -> list[Record]:
        return await self._in_thread(self._take, most, wait_s)

    async def commit(self, records: Iterable[Record]) -> None:
        await self._in_thread(self._commit, offsets_after(records))

    def commit_soon(self, records: Iterable[Record]) -> None:
        self._commits.want(offsets_after(records))

    async def close(self) -> None:
        """A broker that is away delays this by seconds; then the end of the session does the rest."""
        if self._closed:
            return
        self._closed = True
        with trio.CancelScope(shield=True), trio.move_on_after(CLOSE_LIMIT_S):
            await trio.to_thread.run_sync(
                self._driver.close, limiter=self._one_at_a_time, abandon_on_cancel=True
            )

    async def _in_thread(self, call: Callable[..., _Answer], *arguments: object) -> _Answer:
        if self._closed:
            raise UsageError("the consumer is closed")
        try:
            return await trio.to_thread.run_sync(call, *arguments, limiter=self._one_at_a_time)
        except confluent_kafka.KafkaException as error:
            raise UnavailableError(f"Kafka: {error}") from error

    # From here on: in a thread, one call at a time.

    def _take(self, most: int, wait_s: float) -> list[Record]:
        self._apply_pause()
        self._ask_for_commit()
        self._rejoin_if_forgotten()
        if self._paused:
            self._keep(self._driver.poll(wait_s))
            return []
        if not self._ahead:
            self._keep(self._driver.poll(self._until_commit(wait_s)))
        if len(self._ahead) < most:
            for message in self._driver.consume(most - len(self._ahead), 0):
                self._keep(message)
        records = [self._ahead.popleft() for _ in range(min(most, len(self._ahead)))]
        self._commits.hand_out(records)
        return records

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._commits.want(offsets)
        give_up_at = time.monotonic() + self._limit_s
        wait_s = FIRST_CONFIRM_POLL_S
        while self._commits.owed:
            self._ask_for_commit(apart_s=0)
            self._keep(self._driver.poll(wait_s))
            wait_s = min(2 * wait_s, CONFIRM_POLL_S)
            if time.monotonic() > give_up_at and self._commits.owed:
                raise UnavailableError(
                    f"Kafka: no confirmation of a commit for {self._limit_s:g} s", maybe_applied=True
                )

    def _ask_for_commit(self, apart_s: float = COMMITS_APART_S) -> None:
        """One at a time: of two under way, the older might be stored last. One that was not even answered
        with a failure for a minute is not under way any more."""
        now = time.monotonic()
        if self._commits.owed and now > max(self._next_commit_at, self._asked_at + apart_s):
            offsets = [_Place(*place, offset) for place, offset in self._commits.owed.items()]
            self._driver.commit(offsets=offsets, asynchronous=True)
            self._asked_at, self._next_commit_at = now, now + UNANSWERED_S

    def _until_commit(self, wait_s: float) -> float:
        """No longer than until what is owed may be asked for."""
        left_s = max(self._next_commit_at, self._asked_at + COMMITS_APART_S) - time.monotonic()
        return max(0.001, min(wait_s, left_s)) if self._commits.owed else wait_s

    def _rejoin_if_forgotten(self) -> None:
        now = time.monotonic()
        if self._lost_topics and now > self._rejoin_at:
            self._log.warning(
                "lost its topic partitions and got none since: joins anew", after_s=self._rejoin_s
            )
            self._driver.unsubscribe()
            self._join()
            self._rejoin_s = min(2 * self._rejoin_s, LONGEST_REJOIN_S)
            self._rejoin_at = now + self._rejoin_s

    def _apply_pause(self) -> None:
        if self._pause_wanted != self._paused:
            self._paused = self._pause_wanted
            self._set_flow([_Place(*place) for place in self._commits.held])

    def _set_flow(self, places: list[_Place]) -> None:
        if self._paused:
            self._driver.pause(places)
        else:
            self._driver.resume(places)

    def _keep(self, message: confluent_kafka.Message | None) -> None:
        """Put a record where `take` finds it; see to what is not a record."""
        if message is None:
            return
        topic, topic_partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error is None:
            assert topic is not None and topic_partition is not None and offset is not None
            key, value = message.key() or b"", message.value() or b""
            self._ahead.append(Record(topic, topic_partition, offset, key, value))
        elif error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
            assert topic is not None and topic_partition is not None
            self._start_over(TopicPartition(topic, topic_partition), offset)
        else:
            self._log.warning("the driver reports", error=str(error))

    def _start_over(self, place: TopicPartition, offset: int | None) -> None:
        """The offset to go on from is not there. None was committed yet, or else records were lost."""
        if offset is not None and offset >= 0:
            self._log.error("records were lost unread", topic_partition=place, from_offset=offset)
            self._gaps |= {place}
            self._commits.forget(place)
        with suppress(confluent_kafka.KafkaException):  # It may have been revoked meanwhile.
            self._driver.incremental_unassign([_Place(*place)])
            self._assign([_Place(*place, confluent_kafka.OFFSET_BEGINNING)])

    def _assign(self, places: list[_Place]) -> None:
        """A topic partition that comes back remembers a pause of long ago: say how it is now."""
        self._driver.incremental_assign(places)
        self._set_flow(places)

    def _on_assign(self, _driver: confluent_kafka.Consumer, places: list[_Place]) -> None:
        self._lost_topics -= {place.topic for place in places}
        self._commits.assign(TopicPartition(place.topic, place.partition) for place in places)
        self._assign(places)

    def _on_revoke(self, _driver: confluent_kafka.Consumer, places: list[_Place]) -> None:
        gone = {TopicPartition(place.topic, place.partition) for place in places}
        self._commits.revoke(gone)
        self._ahead = deque(record for record in self._ahead if (record[0], record[1]) not in gone)

    def _on_lost(self, driver: confluent_kafka.Consumer, places: list[_Place]) -> None:
        self._lost_topics |= {place.topic for place in places}
        self._rejoin_s = FIRST_REJOIN_S
        self._rejoin_at = time.monotonic() + self._rejoin_s
        self._on_revoke(driver, places)

    def _on_commit(self, error: confluent_kafka.KafkaError | None, places: list[_Place]) -> None:
        self._next_commit_at = 0.0
        refused = error or next((place.error for place in places if place.error), None)
        for place in places:
            if error is None and place.error is None:
                self._commits.confirm(TopicPartition(place.topic, place.partition), place.offset)
        if refused is None:
            self._ask_for_commit()  # What was wanted meanwhile: the poll that serves this may last.
        else:
            self._asked_at = 0.0
            self._log.warning("a commit is owed", reason=str(refused))
