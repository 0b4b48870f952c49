"""Dead letters reach their topic: each at least once, marked once the broker has it, never too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from shardwheel.errors import UnavailableError
from shardwheel.execution import UnpublishedLetter
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.ports import Record
from shardwheel.results.letters import LetterMirror
from shardwheel.service import Service
from shardwheel.store.letter_topic import fitted
from shardwheel.topics import DEAD_LETTERS


class Outbox:
    def __init__(self, count: int) -> None:
        self.waiting = [
            UnpublishedLetter(bytes([n]) * 16, bytes([100 + n]) * 16, n, b'{"n": %d}' % n)
            for n in range(count)
        ]
        self.marked: list[bytes] = []
        self.away = False

    async def take_letters(self, most: int) -> list[UnpublishedLetter]:
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken

    async def letters_published(self, letter_ids: Sequence[bytes]) -> None:
        if self.away:
            raise UnavailableError("away")
        self.marked += letter_ids


async def consumed(bus: MemoryBus) -> list[Record]:
    consumer = bus.consumer("audience", [DEAD_LETTERS])
    return sorted(await consumer.take(1000, 5.0), key=lambda record: record.value)


def test_each_letter_is_published_by_its_job_and_marked_when_it_is_there() -> None:
    async def main() -> None:
        kafka, outbox = MemoryKafka(), Outbox(3)
        bus = MemoryBus(kafka)
        mirror = LetterMirror(Service("results"), outbox, bus, 2)
        outbox.waiting, letters = [], outbox.waiting
        assert await mirror.run_once() == 0  # The topic is there now.
        outbox.waiting = letters
        kafka.away = True
        with pytest.raises(UnavailableError, match="3 dead letters"):
            await mirror.run_once()
        assert outbox.marked == []
        kafka.away = False
        outbox.away = True
        with pytest.raises(UnavailableError, match="away"):
            await mirror.run_once()
        outbox.away = False
        assert await mirror.run_once() == 3
        assert outbox.marked == [bytes([n]) * 16 for n in range(3)]
        assert await mirror.run_once() == 0
        records = await consumed(bus)
        # Once each: what the broker owed an answer for was waited for, not published again.
        assert [(record.key[0], record.topic_partition, record.value) for record in records] == [
            (100 + n, n % 2, b'{"n": %d}' % n) for n in range(3)
        ]

    trio.run(main, clock=MockClock(autojump_threshold=0))


def letter(attempts: int, traceback: str = "", params: str = "") -> dict[str, Any]:
    return {
        "version": 1,
        "id": "x",
        "reason": "poison",
        "params": {"p": params},
        "job": {"params": {"p": params}},
        "attempts": [{"attempt": n + 1, "message": "no", "traceback": traceback} for n in range(attempts)],
        "traceback": traceback,
        "message": "no",
        "checkpoint": None,
        "progress": None,
    }


@pytest.mark.parametrize(
    ("value", "attempts", "shortened"),
    [
        (letter(3, "t" * 100), 3, False),
        (letter(3, "t" * 4_000), 3, True),
        (letter(1_000), 20, True),
        (letter(3, params="p" * 6_000), 3, True),
    ],
)
def test_a_letter_fits_into_a_message(value: dict[str, Any], attempts: int, shortened: bool) -> None:
    encoded = fitted(value, 10_000)
    assert len(encoded) <= 10_000
    shown = msgspec.json.decode(encoded)
    assert (shown["shortened"], len(shown["attempts"]), shown["reason"]) == (shortened, attempts, "poison")
    assert shown["attempts"][0]["attempt"] == 1 and shown["attempts"][-1]["attempt"] == len(value["attempts"])
