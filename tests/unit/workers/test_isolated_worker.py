"""A worker with isolated handlers: their ends are results, their output is kept, its own end is theirs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import trio_test

from shardwheel.errors import UsageError
from shardwheel.execution import Claimant, Claimed, ClaimReply, Note
from shardwheel.handler import Registry
from shardwheel.isolation import Limits
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.ports import Message
from shardwheel.service import Service
from shardwheel.topics import RESULTS, RESULTS_GROUP, job_topics, result_topics
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome, Result, decode_result, encode_fire
from shardwheel.workers.isolated import Isolation
from shardwheel.workers.worker import Worker
from tests.unit.workers.isolated_rig import LIMIT_S, MODULE, Watched
from tests.unit.workers.test_worker import JOBS, GrantingStore


class Job:
    def __init__(self, task: str, params: Any = None, timeout_s: float = LIMIT_S) -> None:
        self.task = task
        self.params = msgspec.json.encode(params)
        self.timeout_ms = round(timeout_s * 1000)


class JobStore(GrantingStore):
    """Grants each fire the job of its number, and lets the lines that attempts write be waited for."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__()
        self._jobs = jobs
        self._written, self.written = trio.open_memory_channel[str](1_000)

    async def claim(self, fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply:
        claimed = [self._claimed(fire, claimant.token) for fire, _ in fires]
        return ClaimReply(claimed, {}, 0)

    def _claimed(self, fire: Fire, token: bytes) -> Claimed:
        job = self._jobs[fire.scheduled_ms]
        head = (fire.execution_id, fire.job_id, fire.partition, "t", job.task, job.params)
        return Claimed(*head, fire.scheduled_ms, fire.due_ms, fire.attempt, 0, job.timeout_ms, token)

    async def write_notes(self, said: Sequence[Note], log_limit_bytes: int) -> None:
        for note in said:
            for _, _, text in msgspec.json.decode(note.lines) if note.lines else ():
                self._written.send_nowait(text)


class Rig:
    def __init__(self, jobs: Sequence[Job], limits: Limits) -> None:
        server = MemoryKafka()
        server.create(job_topics(1) + result_topics(1))
        self._bus = MemoryBus(server)
        self._count = len(jobs)
        self._consumer = self._bus.consumer(RESULTS_GROUP, [RESULTS])
        self.store = JobStore(jobs)
        self.service = Service("worker")
        registry = Registry()
        for job in jobs:
            registry.add(job.task, _never_here, "short", None, limits)
        options: dict[str, Any] = {"pool": "short", "topic_partitions": 1, "stop_grace_s": 1.0}
        Worker(
            "w",
            self.service,
            self.store,
            self._bus,
            self._bus,
            registry,
            now_ms=lambda: trio.current_time() * 1000,
            isolation=Isolation(MODULE, self.service.health),
            **options,
        ).add_to_service()

    async def publish(self) -> None:
        """When there is a fork server: an attempt's time should not pass with waiting for one."""
        while self.service.health.parts.get("isolation", "not yet") is not None:
            await trio.sleep(0.01)
        producer = self._bus.producer()
        head = (FORMAT_VERSION, FireKind.FIRE)
        fires = [
            encode_fire(Fire(*head, number.to_bytes(16, "big"), bytes(16), 0, 1, number, number, 1))
            for number in range(self._count)
        ]
        producer.publish([Message(JOBS, 0, bytes(16), fire) for fire in fires])

    async def results(self) -> list[Result]:
        """One of each job, in their order."""
        results: list[Result] = []
        while len(results) < self._count:
            results += [decode_result(one.value) for one in await self._consumer.take(self._count, 1)]
        return sorted(results, key=lambda one: one.execution_id)


def _never_here(ctx: Any, params: Any) -> None:
    raise AssertionError("an isolated handler was called in the worker")


@asynccontextmanager
async def working(*jobs: Job, cpu_s: int = 60) -> AsyncIterator[Rig]:
    rig = Rig(jobs, Limits(cpu_s=cpu_s))
    with trio.fail_after(2 * LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.service.run)
            await rig.publish()
            try:
                yield rig
            finally:
                rig.service.stop()


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwheel.workers.run.GRACE_S", 0.2)


@trio_test
async def test_ends_of_isolated_attempts_are_results() -> None:
    jobs = Job("facts", {"n": 1}), Job("burn"), Job("raise", {"kind": "fatal"}), Job("family", timeout_s=1)
    async with working(*jobs, cpu_s=1) as rig:
        good, burnt, fatal, late = await rig.results()
    assert (good.outcome, msgspec.json.decode(good.output)["params"]) == (Outcome.SUCCEEDED, {"n": 1})
    assert (burnt.outcome, burnt.error_class) == (Outcome.FAILED, "CpuLimitExceeded")
    assert (fatal.outcome, fatal.message) == (Outcome.FATAL, "never")
    assert (late.outcome, late.error_class) == (Outcome.TIMED_OUT, "TimeoutError")


@trio_test
async def test_output_is_kept_with_the_execution() -> None:
    async with working(Job("talk", {"lines": 1})) as rig:
        assert [await rig.store.written.receive() for _ in range(3)] == ["first", "second", "y" * 99]


@trio_test
async def test_a_worker_that_stops_lets_children_finish(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with working(Job("wait", {"pipe": str(pipe)})) as rig:
        await rig.store.written.receive()
        rig.service.stop()
        await trio.to_thread.run_sync(pipe.write_text, "go")
        (result,) = await rig.results()
    assert (result.outcome, result.output) == (Outcome.SUCCEEDED, b'"go"')


@trio_test
async def test_a_worker_that_stops_gives_back_what_does_not_end_and_leaves_nothing() -> None:
    async with working(Job("family")) as rig:
        who = msgspec.json.decode(await rig.store.written.receive())
        watched = Watched([who["keeper"], who["child"], *who["others"]])
        rig.service.stop()
        (result,) = await rig.results()
    with watched:
        assert result.outcome == Outcome.RELEASED
        assert watched.are_gone()


@trio_test
async def test_a_worker_without_isolation_refuses_isolated_handlers() -> None:
    registry = Registry()
    registry.add("a", _never_here, "short", None, Limits())
    bus = MemoryBus(MemoryKafka())
    with pytest.raises(UsageError, match="can't isolate a"):
        Worker(
            "w",
            Service("worker"),
            GrantingStore(),
            bus,
            bus,
            registry,
            pool="short",
            now_ms=lambda: 0,
            topic_partitions=1,
        )
