"""Mirrors dead letters to their topic, for whoever wants to hear of them without asking the database.

Why here: a dead letter is written by the settling (and, for lost workers, by a shard's sweep), and the result
processors are the services that may be many and late without anybody waiting. Level-triggered: the table says
what is not in the topic yet. At least once: a letter is marked once the broker has acknowledged it; whoever
dies in between leaves it to the next one, half a minute later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from shardwheel.errors import UnavailableError
from shardwheel.execution import UnpublishedLetter
from shardwheel.ports import Bus, Message
from shardwheel.service import Service
from shardwheel.topics import DEAD_LETTERS, letter_topics

AT_ONCE = 50
PAUSE_S = 2.0
LIMIT_S = 10.0


class LetterStore(Protocol):
    """What mirroring asks of the store."""

    async def take_letters(self, most: int) -> list[UnpublishedLetter]: ...
    async def letters_published(self, letter_ids: Sequence[bytes]) -> None: ...


class LetterMirror:
    """`run_once` publishes a batch and waits for the broker. What a broker that is away has not acknowledged
    yet stays with the producer and is waited for again, not published again."""

    def __init__(self, service: Service, store: LetterStore, bus: Bus, topic_partitions: int) -> None:
        self._service = service
        self._store = store
        self._bus = bus
        self._topic_partitions = topic_partitions
        self._topic_exists = False
        self._producer = bus.producer()
        self._ticket = 0
        self._under_way: list[bytes] = []

    def add_to_service(self) -> None:
        self._service.add_loop("letters", self._run)

    async def _run(self) -> None:
        try:
            while not self._service.stopping.is_set():
                published = await self._attempt()
                with trio.move_on_after(0 if published else PAUSE_S):
                    await self._service.stopping.wait()
        finally:
            with trio.CancelScope(shield=True):
                await self._producer.close()

    async def _attempt(self) -> int:
        try:
            published = await self.run_once()
        except UnavailableError as error:
            self._service.health.unwell("letters", str(error))
            return 0
        self._service.health.well("letters")
        return published

    async def run_once(self) -> int:
        """How many letters the topic has now that it had not before."""
        if not self._topic_exists:
            await self._bus.ensure_topics(letter_topics(self._topic_partitions))
            self._topic_exists = True
        if not self._under_way:
            letters = await self._store.take_letters(AT_ONCE)
            if not letters:
                return 0
            self._ticket = self._producer.publish([self._message(letter) for letter in letters])
            self._under_way = [letter.dead_letter_id for letter in letters]
        with trio.move_on_after(LIMIT_S) as scope:
            await self._producer.wait_acknowledged(self._ticket)
        if scope.cancelled_caught:
            raise UnavailableError(f"Kafka did not acknowledge {len(self._under_way)} dead letters yet")
        await self._store.letters_published(self._under_way)
        published, self._under_way = len(self._under_way), []
        return published

    def _message(self, letter: UnpublishedLetter) -> Message:
        place = letter.partition % self._topic_partitions
        return Message(DEAD_LETTERS, place, letter.job_id, letter.value)
