"""A worker on a bus in memory: it holds as many attempts as it has slots, and gives back what won't end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.execution import Beat, Claimant, Claimed, ClaimReply, Held
from shardwheel.handler import Registry
from shardwheel.job import Priority
from shardwheel.limits import WorkerCard
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.ports import Message
from shardwheel.service import Service
from shardwheel.topics import RESULTS, RESULTS_GROUP, job_topic, job_topics, result_topics, workers_group
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome, Result, decode_result, encode_fire
from shardwheel.workers.worker import Worker

JOBS = job_topic("short", Priority.NORMAL)


class GrantingStore:
    """Lets everything run, after a moment."""

    async def claim(self, fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply:
        await trio.sleep(0.1)
        return ClaimReply([_claimed(fire, claimant.token) for fire, _ in fires], {}, 0)

    async def claimed_by(self, fires: Iterable[Fire], token: bytes) -> list[Claimed]:
        return [_claimed(fire, token) for fire in fires]

    async def heartbeat(self, held: Sequence[Held], pool: str, results_generation: str) -> Beat:
        return Beat(frozenset(one.execution_id for one in held), frozenset())

    async def announce_worker(self, worker: WorkerCard) -> None:
        """Nobody asks here."""

    async def withdraw_worker(self, worker_id: str) -> None:
        """Nobody asks here."""


def _claimed(fire: Fire, token: bytes) -> Claimed:
    head = (fire.execution_id, fire.job_id, fire.partition, "t", "work", b"{}")
    return Claimed(*head, fire.scheduled_ms, fire.due_ms, fire.attempt, 0, 600_000, token)


def _fire(number: int) -> bytes:
    execution_id = number.to_bytes(16, "big")
    head = (FORMAT_VERSION, FireKind.FIRE, execution_id, bytes(16), 0, 1)
    return encode_fire(Fire(*head, scheduled_ms=number, due_ms=number, attempt=1))


class Desk:
    """A handler whose attempts end when the test lets them."""

    def __init__(self) -> None:
        self.began = self.most = self.now = 0
        self.go = trio.Event()

    async def work(self, ctx: Any, params: Any) -> None:
        self.began += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
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
        registry = Registry()
        registry.add("work", self.desk.work, "short", None)
        options: dict[str, Any] = {"pool": "short", "topic_partitions": 1, "slots": slots}
        Worker(
            "w",
            self.service,
            GrantingStore(),
            self.bus,
            self.bus,
            registry,
            now_ms=lambda: trio.current_time() * 1000,
            **options,
        ).add_to_service()

    async def publish(self, count: int) -> None:
        producer = self.bus.producer()
        ticket = producer.publish([Message(JOBS, 0, bytes(16), _fire(number)) for number in range(count)])
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
    return MockClock(autojump_threshold=0.01)


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
async def test_a_stopped_worker_gives_back_what_does_not_end(clock: MockClock) -> None:
    async with working(slots=5) as rig:
        await rig.publish(3)
        await trio.sleep(5)
        assert rig.desk.now == 3
    results = await rig.results()
    assert [result.outcome for result in results] == [Outcome.RELEASED] * 3
    assert rig.desk.now == 0
