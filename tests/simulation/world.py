"""The simulated cluster: three servers in memory, and the real shard, worker and result processor on them.

A process has edges of its own and a name that is never used again. It ends by a crash (every task is
cancelled where it stands, and its clients fall silent), or by itself (a lost lease); either way it is
started anew after a while. Nothing here knows what is right: that is the checker's business.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import trio

from shardwheel.clock import DatabaseClock
from shardwheel.coordinator.lead import Lead
from shardwheel.coordinator.members import Members
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.handler import Registry
from shardwheel.memory.etcd_server import MemoryEtcd
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.memory.loop_store import loop_server
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.records import Member
from shardwheel.results.catching_up import CatchingUp
from shardwheel.results.lag import LagBreaker, LagWatch
from shardwheel.results.processor import Processor
from shardwheel.service import Service
from shardwheel.shard.shard import Shard
from shardwheel.topics import job_topics, result_topics
from shardwheel.workers.worker import Worker
from tests.simulation.gates import Gate, GatedBus, GatedLeases, GatedPool, GatedStore

PARTITIONS = 3
TOPIC_PARTITIONS = 2
TICK_S = 0.2
CALL_LIMIT_S = 5.0
# `scarce` is what people limit and pause, `shaky` needs something that is away at times.
TASKS = ("work", "scarce", "shaky")


class QuietService(Service):
    """A service without a door and without signals."""

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _, loop in self._loops:
                nursery.start_soon(loop)


class Process:
    """One life of one process."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.gate = Gate()
        self.service = QuietService(name)
        self.bus = GatedBus(world.kafka, self.gate)
        self.leases = GatedLeases(world.etcd, self.gate)
        self.store = GatedStore(GatedPool(world.postgres, self.gate, CALL_LIMIT_S))
        self.scope = trio.CancelScope()

    def crash(self) -> None:
        self.bus.crash()
        self.scope.cancel()

    async def ready(self) -> DatabaseClock:
        """What every command does first: topics, and the database's clock."""
        clock = DatabaseClock(trio.current_time)
        while True:
            try:
                await self.bus.ensure_topics(job_topics(TOPIC_PARTITIONS) + result_topics(TOPIC_PARTITIONS))
                await clock.run_once(self.store)
                return clock
            except UnavailableError:
                await trio.sleep(0.5)


Life = Callable[[Process], Awaitable[None]]


def name_of(role: str, birth: int) -> str:
    """A process's name: new with each of its lives."""
    return f"{role}-{birth}"


def is_limited(seed: int) -> bool:
    """Every fourth seed has limits, breakers and jobs that must not overlap; a few of those with DAGs too."""
    return seed % 4 == 3 or seed % 32 == 9


def has_dags(seed: int) -> bool:
    """And every fourth has DAGs, and hardly any jobs."""
    return seed % 4 == 1


def lags(seed: int) -> bool:
    """In half of those, few results are a lag: what follows in DAGs is put off."""
    return seed % 8 == 5


class World:
    def __init__(self, seed: int, registry: Registry) -> None:
        self.random = random.Random(seed)
        self.kafka = MemoryKafka(seed)
        self.etcd = MemoryEtcd()
        self.postgres: MemoryPostgres = loop_server(seed=seed, partitions=PARTITIONS)
        self.registry = registry
        # What a worker knew before the last deployment.
        self.old_registry = Registry()
        self.processes: dict[str, Process] = {}
        self.healed = False
        self.limited = is_limited(seed)
        self.has_dags = has_dags(seed)
        # Handlers take seconds.
        self.slow = False
        # What shaky handlers need is away.
        self.broken = False
        # Held from the moment a standby lags until it is the primary: one fail-over at a time.
        self.failing_over = trio.Lock()
        self.strange_ends: list[BaseException] = []
        self.shut_doors: set[str] = set()
        self._door_shut = trio.Event()
        self._births = 0

    def shut_door(self, name: str) -> None:
        """Whoever holds on to this process is refused from now on."""
        self.shut_doors.add(name)
        self._door_shut.set()
        self._door_shut = trio.Event()

    async def until_gone(self, address: str, shard_id: str) -> None:
        """`ports.Doors`, for all shards alike."""
        while shard_id not in self.shut_doors:
            await self._door_shut.wait()

    async def supervise(self, role: str, life: Life) -> None:
        """Live, die, and live again as somebody new; until cancelled."""
        while True:
            self._births += 1
            process = Process(self, name_of(role, self._births))
            self.shut_doors.discard(process.name)
            self.processes[role] = process
            try:
                with process.scope:
                    await life(process)
            except Exception as error:
                self.strange_ends += [one for one in leaves(error) if not _may_end_a_process(one)]
            process.crash()
            self.shut_door(process.name)
            await trio.sleep(0.2 if self.healed else self.random.uniform(0, 3))

    async def shard(self, process: Process) -> None:
        await process.ready()
        members = Members(process.service, process.leases)
        member = Shard(
            Member(process.name),
            process.service,
            process.store,
            process.bus,
            process.bus,
            process.leases,
            members,
            monotonic=trio.current_time,
            topic_partitions=TOPIC_PARTITIONS,
            tick_s=TICK_S,
            doors=self,
        )
        await member.join()
        members.add_to_service()
        member.add_to_service()
        now_ms = member.clock.now_ms
        Lead(
            process.service, process.store, process.bus, process.leases, member, members, now_ms=now_ms
        ).add_to_service()
        await process.service.run()

    async def worker(self, process: Process) -> None:
        await self._work(process, self.registry)

    async def old_worker(self, process: Process) -> None:
        """It knows few handlers, until it is started anew when all is well."""
        await self._work(process, self.registry if self.healed else self.old_registry)

    async def _work(self, process: Process, registry: Registry) -> None:
        clock = await process.ready()
        worker = Worker(
            process.name,
            process.service,
            process.store,
            process.bus,
            process.bus,
            registry,
            pool="short",
            now_ms=clock.now_ms,
            topic_partitions=TOPIC_PARTITIONS,
        )
        worker.add_to_service()
        await process.service.run()

    async def results(self, process: Process) -> None:
        await process.ready()
        breaker = LagBreaker()
        Processor(process.service, process.store, process.bus, breaker=breaker).add_to_service()
        if self.has_dags:
            LagWatch(process.service, process.bus, breaker).add_to_service()
            CatchingUp(process.service, process.store, breaker).add_to_service()
        await process.service.run()


def leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for one in error.exceptions for leaf in leaves(one)]


def _may_end_a_process(error: BaseException) -> bool:
    """A lost lease, topics that are gone, edges that were cut under it: it starts over. All else is a bug."""
    return isinstance(error, UnavailableError | UsageError) or "start over" in str(error)
