"""Faults that come together, in an order that single ones at random moments hardly ever find.

Each tells of one sentence of the design that nothing else would try: what it protects from takes two or
three mishaps in a row. The checker knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import trio
from psycopg import Connection

from shardwheel.errors import UnavailableError
from shardwheel.memory import ownership
from shardwheel.memory.leases import Faults
from shardwheel.memory.loop_store import MemoryLoopStore
from shardwheel.memory.pool import MemoryPool
from shardwheel.ports import Put
from shardwheel.posting import parse_posting
from shardwheel.records import pin_key
from shardwheel.store.jobs import create_jobs, edit_job
from shardwheel.topics import job_topics, result_topics
from tests.simulation.notes import TENANT, note_job
from tests.simulation.people import long_s
from tests.simulation.world import PARTITIONS, TOPIC_PARTITIONS, Process, World

Fault = Callable[[], Awaitable[None]]


# The only one, if a test wants to hear just that.
_told: ContextVar[Callable[[Stories], Awaitable[None]] | None] = ContextVar("told", default=None)


@contextmanager
def told(story: Callable[[Stories], Awaitable[None]] | None) -> Iterator[None]:
    """While the block runs, nothing else happens than this story, again and again."""
    token = _told.set(story)
    try:
        yield
    finally:
        _told.reset(token)


class Stories:
    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random

    def only(self) -> Fault | None:
        story = _told.get()
        return None if story is None else partial(story, self)

    def all(self) -> list[Fault]:
        return [
            self.unanswered,
            self.half_written,
            self.stale_owner,
            self.claims_lost,
            self.late_result,
            self.unread,
            self.behind,
            self.backlog,
            self.unclaimed,
            self.slow_hand_over,
            *([self.worn_out] if self._world.has_dags else []),
        ]

    async def _while(self, least_s: float, most_s: float) -> None:
        await trio.sleep(self._random.uniform(least_s, most_s))

    def _owner(self) -> Process | None:
        """The process that a partition names, if it lives."""
        state = self._world.postgres.tables[ownership.TABLE][0]
        lives = [process for process in self._world.processes.values() if process.name == state.owner]
        return lives[0] if lives else None

    async def _until_taken_from(self, owner: Process, within_s: float = 9.0) -> Process | None:
        """Who owns what this one owned; nobody, if that takes too long."""
        with trio.move_on_after(within_s):
            while (heir := self._owner()) in (owner, None):
                await trio.sleep(0.1)
            return heir
        return None

    async def unanswered(self) -> None:
        """Kafka answers questions and acknowledges nothing while watermarks are stored; then the owner dies,
        often one that has just taken over."""
        kafka, owner = self._world.kafka, self._owner()
        kafka.lose_acks = True
        if owner is not None and self._random.random() < 0.5:
            owner.crash()
            await self._until_taken_from(owner)
        await self._while(1.2, 4.0)
        if (owner := self._owner()) is not None:
            owner.crash()
        kafka.lose_acks = False

    async def unread(self) -> None:
        """The owner's feed hangs while its watermarks are stored: what changes now, only its standby sees.
        Then the owner dies."""
        owner = self._owner()
        if owner is not None:
            owner.store.feed.shut()
            await self._while(1.5, 4.5)
            owner.crash()
        await self._while(1.0, 4.0)

    async def behind(self) -> None:
        """The standby's feed hangs: what changes now, only the owner sees, and stores a horizon that says so.
        Then the owner dies, and the standby hears again."""
        owner = self._owner()
        others = [process for process in self._world.processes.values() if process is not owner]
        for process in others:
            process.store.feed.shut()
        await self._while(2.0, 4.5)
        if owner is not None:
            owner.crash()
            await self._until_taken_from(owner, within_s=1.0)
        for process in others:
            process.store.feed.open()
        await self._while(1.0, 4.0)

    async def backlog(self) -> None:
        """The owner stands still for so long that its times are missed. Whoever is the owner then catches
        them up, at a limited rate, and dies over it."""
        owner = self._owner()
        if owner is not None:
            owner.gate.shut()
            await self._while(3.0, 6.0)
            await self._until_taken_from(owner, within_s=4.0)
            owner.gate.open()
            await self._while(0.8, 3.0)
            if (heir := self._owner()) is not None:
                heir.crash()
        await self._while(1.0, 4.0)

    async def half_written(self) -> None:
        """One topic partition takes nothing, the others do; the owner dies before what waited arrives."""
        kafka = self._world.kafka
        kafka.read_only = frozenset({self._random.randrange(TOPIC_PARTITIONS)})
        await self._while(1.5, 5.0)
        if (owner := self._owner()) is not None:
            owner.crash()
        kafka.read_only = frozenset()

    async def stale_owner(self) -> None:
        """The owner stands still with its watermarks in hand, cut off from etcd. Kafka loses what no worker
        has read, another shard takes over and begins to repeat it; the first one wakes, the other dies."""
        world = self._world
        workers = [process for role, process in world.processes.items() if "worker" in role]
        for worker in workers:
            worker.gate.shut()
        await self._while(1.5, 3.0)
        if (owner := self._owner()) is not None:
            owner.gate.shut()
            owner.leases.faults = Faults(away=True)
            await self._while(1.0, 2.0)
            world.kafka.lose_acks = True
            self._lose_kafka()
            heir = await self._until_taken_from(owner)
            owner.gate.open()
            await self._while(0.0, 1.5)
            if heir is not None:
                heir.crash()
            world.kafka.lose_acks = False
            owner.leases.faults = Faults()
        for worker in workers:
            worker.gate.open()

    def _lose_kafka(self) -> None:
        self._world.kafka.wipe()
        self._world.kafka.create(job_topics(TOPIC_PARTITIONS) + result_topics(TOPIC_PARTITIONS))

    async def unclaimed(self) -> None:
        """The workers stand still, and Kafka loses what none of them has read."""
        workers = [process for role, process in self._world.processes.items() if "worker" in role]
        for worker in workers:
            worker.gate.shut()
        await self._while(3.0, 6.0)
        self._lose_kafka()
        for worker in workers:
            worker.gate.open()
        await self._while(2.0, 5.0)

    async def slow_hand_over(self) -> None:
        """Partitions are moved while acknowledgements take their time: meanwhile the other ticks go on."""
        world = self._world
        world.kafka.ack_delay_s = 1.2
        shards = [process.name for role, process in world.processes.items() if "shard" in role]
        for partition in range(PARTITIONS):
            world.etcd.settle()
            world.etcd.txn([], [Put(pin_key(partition), self._random.choice(shards).encode())])
        await self._while(3.0, 6.0)
        world.kafka.ack_delay_s = 0.0

    async def claims_lost(self) -> None:
        """PostgreSQL fails over to a standby that knows of the fires, but not of their claims: the workers
        lagged, claimed, and have told Kafka so."""
        world = self._world
        workers = [process for role, process in world.processes.items() if "worker" in role]
        for worker in workers:
            worker.gate.shut()
        await self._while(1.5, 4.0)
        async with world.failing_over:
            backup = world.postgres.backup()
            for worker in workers:
                worker.gate.open()
            await self._while(0.3, 2.0)
            world.postgres.fail_over(backup)

    async def late_result(self) -> None:
        """A worker stands still past its leases, its runs are claimed by another one, and it wakes."""
        world = self._world
        world.slow = True
        await self._while(1.0, 3.0)
        worker = world.processes["worker"]
        worker.gate.shut()
        await self._while(9.0, 14.0)
        worker.gate.open()
        world.slow = False

    async def worn_out(self) -> None:
        """The workers die over what they run, and then over the same again, until it is given up."""
        world = self._world
        for _ in range(2):
            world.slow = True
            await self._while(1.5, 3.0)
            for role in [role for role in world.processes if "worker" in role]:
                world.processes[role].crash()
            world.slow = False
            await self._while(9.0, 11.0)

    async def late_commit(self) -> None:
        """Somebody's job takes seconds to be committed. Meanwhile watermarks and floors pass its first times;
        it is edited before any shard has read it."""
        shards = [process for role, process in self._world.processes.items() if "shard" in role]
        store = MemoryLoopStore(MemoryPool(self._world.postgres, limit_s=60))
        for shard in shards:
            shard.store.feed.shut()
        with suppress(UnavailableError):
            long_s.set(self._random.uniform(5, 9))
            job_id = await store.run(_create)
            long_s.set(0.0)
            await store.run(_edit, job_id)
        for shard in shards:
            shard.store.feed.open()
        await self._while(2.0, 4.0)


def _create(conn: Connection[Any]) -> bytes:
    (job_id,) = create_jobs(conn, TENANT, [parse_posting({"task": "work", "every": 1})])
    note_job(conn, job_id)
    return job_id


def _edit(conn: Connection[Any], job_id: bytes) -> None:
    edit_job(conn, TENANT, job_id, {"every": 7})
    note_job(conn, job_id)
