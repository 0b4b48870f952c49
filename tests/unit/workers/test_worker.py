"""A worker on a bus in memory: it holds as many attempts as it has slots, and gives back what won't end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import UnavailableError
from shardwheel.execution import Beat, Claimant, Claimed, ClaimReply, Held
from shardwheel.handler import Registry
from shardwheel.job import Priority
from shardwheel.limits import WorkerCard
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.metrics import ABANDONED
from shardwheel.ports import Message
from shardwheel.service import Service
from shardwheel.topics import RESULTS, RESULTS_GROUP, job_topic, job_topics, result_topics, workers_group
from shardwheel.wire import (
    FORMAT_VERSION,
    Fire,
    FireKind,
    Outcome,
    Result,
    decode_fire,
    decode_result,
    encode_fire,
)
from shardwheel.workers.worker import Worker
from tests.unit.workers.rig import ListeningStore

JOBS = job_topic("short", Priority.NORMAL)


class GrantingStore(ListeningStore):
    """Lets everything run, after a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_to_stop: frozenset[bytes] = frozenset()
        self.lost: frozenset[bytes] = frozenset()
        self.held: list[list[tuple[Fire, int]]] = []
        # How many fires one transaction has the time for.
        self.most = 1_000

    async def claim(self, fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply:
        await trio.sleep(0.1)
        if len(fires) > self.most:
            raise UnavailableError("PostgreSQL did not answer within 10 s")
        return ClaimReply([_claimed(fire, claimant.token) for fire, _ in fires], {}, 0)

    async def claimed_by(self, fires: Iterable[Fire], token: bytes) -> list[Claimed]:
        return [_claimed(fire, token) for fire in fires]

    async def held_for_workers(self, pool: str, tasks: Collection[str], most: int) -> list[tuple[Fire, int]]:
        return self.held.pop() if self.held else []

    async def to_stop(self, worker: str) -> frozenset[bytes]:
        return self.asked_to_stop

    async def heartbeat(self, held: Sequence[Held], pool: str, results_generation: str) -> Beat:
        return Beat(frozenset(one.execution_id for one in held) - self.lost, frozenset())

    async def announce_worker(self, worker: WorkerCard) -> None:
        """Nobody asks here."""

    async def withdraw_worker(self, worker_id: str) -> None:
        """Nobody asks here."""


def _claimed(fire: Fire, token: bytes) -> Claimed:
    head = (fire.execution_id, fire.job_id, fire.partition, "t", "work", b"{}")
    return Claimed(*head, fire.scheduled_ms, fire.due_ms, fire.attempt, 0, 600_000, token)


def _id(number: int) -> bytes:
    return (2_000 + number).to_bytes(16, "big")


def _fire(number: int) -> bytes:
    execution_id = number.to_bytes(16, "big")
    head = (FORMAT_VERSION, FireKind.FIRE, execution_id, bytes(16), 0, 1)
    return encode_fire(Fire(*head, scheduled_ms=number, due_ms=number, attempt=1))


class Desk:
    """A handler whose attempts end when the test lets them."""

    def __init__(self) -> None:
        self.began = self.most = self.now = 0
        self.go = trio.Event()
        self.shields = self.speaks = False
        self.order: list[int] = []

    async def work(self, ctx: Any, params: Any) -> None:
        self.began += 1
        self.order.append(ctx.scheduled_ms)
        if self.speaks:
            ctx.log("began")
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            with trio.CancelScope(shield=self.shields):
                await self.go.wait()
            await trio.sleep(1)
        finally:
            self.now -= 1


class Rig:
    def __init__(self, slots: int) -> None:
        self._server = MemoryKafka()
        self._server.create(job_topics(1) + result_topics(1))
        self.bus = MemoryBus(self._server)
        self.desk = Desk()
        self.service = Service("worker")
        self.store = GrantingStore()
        registry = Registry()
        registry.add("work", self.desk.work, "short", None)
        options: dict[str, Any] = {"pool": "short", "topic_partitions": 1, "slots": slots}
        Worker(
            "w",
            self.service,
            self.store,
            self.bus,
            self.bus,
            registry,
            now_ms=lambda: trio.current_time() * 1000,
            **options,
        ).add_to_service()

    async def publish(self, count: int, priority: Priority = Priority.NORMAL, times: int = 1) -> None:
        producer, topic = self.bus.producer(), job_topic("short", priority)
        numbers = [*range(1_000 * priority, 1_000 * priority + count)] * times
        ticket = producer.publish([Message(topic, 0, bytes(16), _fire(number)) for number in numbers])
        await producer.wait_acknowledged(ticket)

    async def results(self) -> list[Result]:
        consumer = self.bus.consumer(RESULTS_GROUP, [RESULTS])
        records = await consumer.take(1_000, 1)
        await consumer.close()
        return [decode_result(record.value) for record in records]

    async def committed(self) -> int:
        return sum((await self.bus.committed_offsets(workers_group("short"), [JOBS])).values())


@asynccontextmanager
async def working(slots: int) -> AsyncIterator[Rig]:
    rig = Rig(slots)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.service.run)
        yield rig
        rig.service.stop()


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@trio_test
async def test_it_takes_as_many_as_it_has_slots_and_more_when_they_are_free(clock: MockClock) -> None:
    async with working(slots=5) as rig:
        await rig.publish(23)
        await trio.sleep(20)
        assert (rig.desk.began, rig.desk.most) == (5, 5)
        assert await rig.committed() == 5
        rig.desk.go.set()
        await trio.sleep(30)
        assert (rig.desk.began, rig.desk.now, rig.desk.most) == (23, 0, 5)
        assert await rig.committed() == 23
        assert {result.outcome for result in await rig.results()} == {Outcome.SUCCEEDED}


@trio_test
async def test_it_comes_for_what_others_had_no_handler_for_even_when_it_is_full(clock: MockClock) -> None:
    async with working(slots=2) as rig:
        await rig.publish(10)
        await trio.sleep(5)
        held = [decode_fire(_fire(number)) for number in (9_001, 9_002, 9_003)]
        rig.store.held = [[(fire, Priority.NORMAL) for fire in held]]
        await trio.sleep(5)
        assert rig.desk.began == 2
        rig.desk.go.set()
        await trio.sleep(30)
        assert (rig.desk.now, rig.desk.most) == (0, 2)
        # Two slots for three of them: the third is found again at the next look.
        assert sorted(rig.desk.order)[-2:] == [9_001, 9_002]
        assert rig.desk.began == 12


@trio_test
async def test_what_one_transaction_has_no_time_for_is_claimed_by_halves(clock: MockClock) -> None:
    async with working(slots=50) as rig:
        rig.store.most = 3
        await rig.publish(50)
        await trio.sleep(20)
        assert (rig.desk.began, rig.desk.now) == (50, 50)
        assert await rig.committed() == 50
        assert rig.service.health.parts["claim"] is None
        rig.desk.go.set()
        await trio.sleep(5)
        assert len({result.execution_id for result in await rig.results()}) == 50


@trio_test
async def test_what_is_claimed_by_halves_begins_once_though_its_message_came_twice(clock: MockClock) -> None:
    async with working(slots=20) as rig:
        rig.store.most = 10
        await rig.publish(10, times=2)
        await trio.sleep(20)
        assert (rig.desk.began, await rig.committed()) == (10, 20)
        rig.desk.go.set()
        await trio.sleep(5)
        assert len(await rig.results()) == 10


@trio_test
async def test_a_stopped_worker_gives_back_what_does_not_end(clock: MockClock) -> None:
    async with working(slots=5) as rig:
        await rig.publish(3)
        await trio.sleep(5)
        assert rig.desk.now == 3
    results = await rig.results()
    assert [result.outcome for result in results] == [Outcome.RELEASED] * 3
    assert rig.desk.now == 0


@trio_test
async def test_a_full_worker_takes_by_priority_and_starves_nobody(clock: MockClock) -> None:
    """Slots come free one after the other, and every priority has more than there is room for."""
    async with working(slots=1) as rig:
        rig.desk.go.set()
        for priority in Priority:
            await rig.publish(100, priority)
        await trio.sleep(100)
        taken = Counter(number // 1_000 for number in rig.desk.order[4:])
        assert (
            taken[Priority.CRITICAL] > taken[Priority.HIGH] > taken[Priority.NORMAL] > taken[Priority.LOW] > 3
        )
        assert rig.desk.most == 1


@trio_test
async def test_with_many_priorities_it_never_holds_more_than_its_slots(clock: MockClock) -> None:
    async with working(slots=10) as rig:
        for priority in Priority:
            await rig.publish(50, priority)
        await trio.sleep(20)
        assert (rig.desk.most, rig.desk.now) == (10, 10)
        rig.desk.go.set()
        await trio.sleep(60)
        assert (rig.desk.began, rig.desk.most, rig.desk.now) == (200, 10, 0)


@trio_test
async def test_what_waits_for_a_slot_at_the_end_is_left_to_others(clock: MockClock) -> None:
    async with working(slots=5) as rig:
        await rig.publish(12)
        await trio.sleep(5)
    assert rig.desk.began == 5
    assert await rig.committed() == 5


@trio_test
async def test_a_wish_to_stop_arrives_long_before_the_heartbeat(clock: MockClock) -> None:
    async with working(slots=5) as rig:
        await rig.publish(2)
        await trio.sleep(3)
        rig.store.asked_to_stop = frozenset({_id(0)})
        await trio.sleep(1.5)
        (result,) = await rig.results()
        assert (result.execution_id, result.outcome) == (_id(0), Outcome.CANCELLED)
        assert rig.desk.now == 1
        rig.desk.go.set()


@trio_test
async def test_an_attempt_that_was_lost_is_not_let_run_on(clock: MockClock) -> None:
    async with working(slots=5) as rig:
        await rig.publish(2)
        await trio.sleep(3)
        rig.store.lost = frozenset({_id(1)})
        await trio.sleep(10)
        assert rig.desk.now == 1
        rig.desk.go.set()


@trio_test
async def test_a_handler_that_shields_itself_is_given_up_and_its_slot_is_free(clock: MockClock) -> None:
    async with working(slots=1) as rig:
        before = ABANDONED._value.get()
        rig.desk.shields = True
        await rig.publish(2)
        await trio.sleep(3)
        rig.store.asked_to_stop = frozenset({_id(0)})
        await trio.sleep(15)
        assert [result.outcome for result in await rig.results()] == [Outcome.CANCELLED]
        assert (rig.desk.began, rig.desk.now) == (2, 2)
        assert ABANDONED._value.get() == before + 1
        rig.desk.go.set()
        await trio.sleep(5)
        assert rig.desk.now == 0
        assert ABANDONED._value.get() == before


@trio_test
async def test_last_words_come_before_the_result(clock: MockClock) -> None:
    async with working(slots=5) as rig:
        rig.desk.speaks = True
        rig.store.is_away = True
        rig.desk.go.set()
        await rig.publish(1)
        await trio.sleep(5)
        assert (rig.desk.began, rig.desk.now, await rig.results()) == (1, 0, [])
        rig.store.is_away = False
        await trio.sleep(2)
        assert [result.outcome for result in await rig.results()] == [Outcome.SUCCEEDED]
        assert sum(note.line_count for batch in rig.store.batches for note in batch) == 1
