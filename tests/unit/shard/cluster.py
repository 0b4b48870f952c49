"""A cluster of real shards on servers in memory, in virtual time: a minute there is a moment here.

async def story(cluster): ...
play(story)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from unittest.mock import patch

import trio
from trio.testing import MockClock

from shardwheel.coordinator.lead import Lead
from shardwheel.coordinator.members import Members
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.memory.loop_store import MemoryLoopStore, loop_server
from shardwheel.memory.pool import MemoryPool
from shardwheel.partition import partition_of
from shardwheel.posting import parse_posting
from shardwheel.records import Member, Plan, Seat, View, read_view
from shardwheel.service import Service
from shardwheel.shard.shard import Shard
from shardwheel.store.jobs import create_jobs
from shardwheel.topics import JOB_TOPICS, job_topics, result_topics
from shardwheel.wire import decode_fire

# Enough that each of three shards owns several.
PARTITIONS = 12
TOPIC_PARTITIONS = 2
LIMIT_S = 120.0


class QuietService(Service):
    """A service without a door and without signals."""

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _, loop in self._loops:
                nursery.start_soon(loop)


class Doors:
    """`ports.Doors`: shut when a test says so."""

    def __init__(self) -> None:
        self.shut: dict[str, trio.Event] = {}

    async def until_gone(self, address: str, shard_id: str) -> None:
        await self.shut.setdefault(shard_id, trio.Event()).wait()


class Process:
    """One shard's process."""

    def __init__(self, cluster: Cluster, shard_id: str) -> None:
        self.shard_id = shard_id
        self.service = QuietService(shard_id)
        self.bus = MemoryBus(cluster.kafka)
        self.leases = MemoryLeases(cluster.etcd)
        self.store = cluster.store
        self.scope = trio.CancelScope()
        self.errors: list[BaseException] = []
        self.ended = trio.Event()
        members = Members(self.service, self.leases)
        self.shard = Shard(
            Member(shard_id),
            self.service,
            self.store,
            self.bus,
            self.bus,
            self.leases,
            members,
            cluster.doors,
            monotonic=trio.current_time,
            topic_partitions=TOPIC_PARTITIONS,
            tick_s=0.02,
        )
        now_ms = self.shard.clock.now_ms
        self.lead = Lead(self.service, self.store, self.bus, self.leases, self.shard, members, now_ms=now_ms)
        for part in (members, self.shard, self.lead):
            part.add_to_service()

    @property
    def owned(self) -> set[int]:
        return set(self.shard.holdings)

    async def run(self) -> None:
        try:
            with self.scope:
                await self.shard.join()
                await self.service.run()
        except BaseExceptionGroup as errors:
            self.errors += errors.exceptions
        self.bus.crash()
        self.ended.set()

    def crash(self) -> None:
        self.bus.crash()
        self.scope.cancel()


class Cluster:
    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.etcd = MemoryEtcd()
        self.kafka = MemoryKafka()
        self.kafka.create(job_topics(TOPIC_PARTITIONS) + result_topics(TOPIC_PARTITIONS))
        self.postgres = loop_server(partitions=PARTITIONS)
        self.store = MemoryLoopStore(MemoryPool(self.postgres))
        self.doors = Doors()

    async def start(self, *shard_ids: str) -> list[Process]:
        """Start these one after the other; returns when each owns its share."""
        processes = []
        for shard_id in shard_ids:
            process = Process(self, shard_id)
            processes.append(process)
            self._nursery.start_soon(process.run)
        await self.until(self.is_settled)
        return processes

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(LIMIT_S):
            while not condition():
                await trio.sleep(0.05)

    def view(self) -> View:
        return read_view(self.etcd.range(""))

    def is_settled(self) -> bool:
        """Everybody that was started and lives is planned with, and owns what is planned for it."""
        view = self.view()
        held = {p: holder.shard_id for p, holder in view.owners.items()}
        planned = {p: seat.owner for p, seat in enumerate(view.seats)}
        active = {m.shard_id for m in view.members.values() if m.state == "active"}
        return bool(planned) and held == planned and set(planned.values()) == active

    async def create_every(self, interval: str) -> dict[int, bytes]:
        """A job in each partition, by its number."""
        found: dict[int, bytes] = {}
        posting = parse_posting({"task": "work", "every": interval, "misfire": "fire_all"})
        while len(found) < PARTITIONS:
            with patch("shardwheel.store.jobs.new_job_id", lambda _: _id_in(len(found))):
                (job_id,) = await self.store.run(create_jobs, "acme", [posting])
            found[partition_of(job_id)] = job_id
        return found

    def published(self, job_id: bytes) -> list[int]:
        """The scheduled times of this job that are in Kafka, repeats and all."""
        return [
            decode_fire(record.value).scheduled_ms
            for place, log in self.kafka.logs(JOB_TOPICS).items()
            for record in log.read(place, 0, 1_000_000)
            if record.key == job_id
        ]


def _id_in(partition: int) -> bytes:
    number = 0
    while partition_of(number.to_bytes(16, "big")) != partition:
        number += 1
    return number.to_bytes(16, "big")


def play(story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run a story to its end, in virtual time."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await story(Cluster(nursery))
            nursery.cancel_scope.cancel()

    plan = Plan(0, (Seat(""),) * PARTITIONS)
    with (
        patch("shardwheel.coordinator.planning._NOBODY", plan),
        patch("shardwheel.coordinator.floor.PARTITIONS", PARTITIONS),
    ):
        trio.run(run, clock=MockClock(autojump_threshold=0))
