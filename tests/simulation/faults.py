"""Everything that can go wrong, at random moments; at the end all of it is mended."""

from __future__ import annotations

import trio

from shardwheel.memory.leases import Faults
from shardwheel.ports import Delete, Put
from shardwheel.records import DRAIN, pin_key
from shardwheel.topics import job_topics, result_topics
from tests.simulation.people import long_s
from tests.simulation.stories import Fault, Stories
from tests.simulation.world import PARTITIONS, TOPIC_PARTITIONS, World


class Chaos:
    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._stories = Stories(world)

    async def rage(self, until_s: float) -> None:
        """One fault after the other, some at the same time; each mends itself after a while."""
        world, r = self._world, self._random
        world.kafka.shuffle = True
        world.kafka.duplicate_chance = r.choice([0.0, 0.1, 0.3])
        world.kafka.ack_delay_s = r.choice([0.0, 0.01, 0.4])
        world.postgres.faults.latency_s = self._latency
        world.postgres.faults.commit_pause_s = self._commit_pause
        pace_s = r.choice([1.5, 3.0, 6.0])
        faults = self._faults()
        async with trio.open_nursery() as nursery:
            while trio.current_time() < until_s:
                await trio.sleep(r.expovariate(1 / pace_s))
                nursery.start_soon(r.choice(faults))

    def heal(self) -> None:
        world = self._world
        world.healed = True
        world.kafka.away = world.kafka.lose_acks = world.kafka.lose_commit_answers = False
        world.kafka.read_only = frozenset()
        world.kafka.duplicate_chance = 0.0
        world.kafka.ack_delay_s = 0.0
        world.slow = world.broken = False
        world.kafka.create(job_topics(TOPIC_PARTITIONS) + result_topics(TOPIC_PARTITIONS))
        world.etcd.start()
        faults = world.postgres.faults
        faults.latency_s = faults.commit_pause_s = lambda: 0.0
        faults.lose_next_answer = faults.lose_next_request = False
        faults.thaw()
        world.postgres.start()
        for process in world.processes.values():
            process.gate.open()
            process.store.feed.open()
            process.leases.faults = Faults()
        if "old worker" in world.processes:
            world.processes["old worker"].crash()

    def _faults(self) -> list[Fault]:
        """Each run has its own mix: some faults often, most of them not at all."""
        every: list[Fault] = [
            *(self._crash(role) for role in self._world.processes),
            *(self._stall(role) for role in self._world.processes),
            self._kafka_away,
            self._kafka_mute,
            self._kafka_wiped,
            self._crash_without_acks,
            self._crash_without_acks,
            self._postgres_away,
            self._postgres_frozen,
            self._postgres_failed_over,
            self._links_broken,
            self._words_lost,
            self._etcd_away,
            self._etcd_wiped,
            *self._of_the_cluster(),
            *self._stories.all(),
        ]
        mix = [self._random.choice(every) for _ in range(4)]
        only = self._stories.only()
        faults = mix if only is None else [only]
        return [*faults, self._broken] if self._world.limited else faults

    def _of_the_cluster(self) -> list[Fault]:
        """One shard and etcd don't understand each other; and what people may ask of a cluster meanwhile."""
        unheard = [
            Faults(away=True),
            Faults(lose_answers=True),
            Faults(request_delay_s=2.5),
            Faults(answer_delay_s=1.0, stall_watches=True),
        ]
        return [
            *(self._cut(self._random.choice(self._shards()), faults) for faults in unheard),
            self._watches_lost,
            self._wrongly_suspected,
            self._drained,
            self._moved,
            self._moved,
        ]

    def _latency(self) -> float:
        return self._random.uniform(0, 0.06) if self._random.random() < 0.2 else 0.0

    def _commit_pause(self) -> float:
        if long_s.get():
            return long_s.get()
        return self._random.uniform(0, 2.0) if self._random.random() < 0.03 else 0.0

    async def _for_a_while(self, least_s: float = 0.3, most_s: float = 6.0) -> None:
        await trio.sleep(self._random.uniform(least_s, most_s))

    def _crash(self, role: str) -> Fault:
        async def crash() -> None:
            self._world.processes[role].crash()

        return crash

    def _stall(self, role: str) -> Fault:
        async def stall() -> None:
            gate = self._world.processes[role].gate
            gate.shut()
            await self._for_a_while(0.5, 14.0)
            gate.open()

        return stall

    async def _kafka_away(self) -> None:
        self._world.kafka.away = True
        await self._for_a_while()
        self._world.kafka.away = False

    async def _kafka_mute(self) -> None:
        self._world.kafka.lose_acks = self._world.kafka.lose_commit_answers = True
        await self._for_a_while(0.1, 3.0)
        self._world.kafka.lose_acks = self._world.kafka.lose_commit_answers = False

    async def _crash_without_acks(self) -> None:
        """What the shard has published is not acknowledged when it dies, and never arrives."""
        self._world.kafka.away = True
        await self._for_a_while(0.5, 5.0)
        self._world.processes["shard"].crash()
        self._world.kafka.away = False

    async def _kafka_wiped(self) -> None:
        self._world.kafka.wipe()
        await trio.sleep(self._random.choice([0.0, 0.5]))
        self._world.kafka.create(job_topics(TOPIC_PARTITIONS) + result_topics(TOPIC_PARTITIONS))

    async def _postgres_away(self) -> None:
        self._world.postgres.kill()
        await self._for_a_while()
        if not self._world.failing_over.locked():
            self._world.postgres.start()

    async def _postgres_frozen(self) -> None:
        self._world.postgres.faults.freeze()
        await self._for_a_while()
        self._world.postgres.faults.thaw()

    async def _postgres_failed_over(self) -> None:
        """The standby lags: what was committed meanwhile is gone."""
        async with self._world.failing_over:
            backup = self._world.postgres.backup()
            await self._for_a_while(0.1, 4.0)
            self._world.postgres.fail_over(backup)

    async def _links_broken(self) -> None:
        self._world.postgres.break_links()

    async def _words_lost(self) -> None:
        faults = self._world.postgres.faults
        if self._random.random() < 0.5:
            faults.lose_next_answer = True
        else:
            faults.lose_next_request = True

    async def _broken(self) -> None:
        """What some handlers need is away for so long that a breaker opens."""
        self._world.broken = True
        await self._for_a_while(4.0, 15.0)
        self._world.broken = False

    async def _etcd_away(self) -> None:
        self._world.etcd.stop()
        await self._for_a_while(0.3, 9.0)
        self._world.etcd.start()

    async def _etcd_wiped(self) -> None:
        self._world.etcd.wipe()

    def _cut(self, role: str, faults: Faults) -> Fault:
        async def cut() -> None:
            leases = self._world.processes[role].leases
            leases.faults = faults
            await self._for_a_while(0.3, 9.0)
            leases.faults = Faults()

        return cut

    async def _watches_lost(self) -> None:
        self._world.etcd.drop_watches()
        self._world.etcd.compact(self._world.etcd.revision)

    async def _wrongly_suspected(self) -> None:
        """A healthy shard refuses those who hold on to it."""
        world = self._world
        name = world.processes[self._random.choice(self._shards())].name
        world.shut_door(name)
        await self._for_a_while(0.3, 9.0)
        world.shut_doors.discard(name)

    def _shards(self) -> list[str]:
        return [role for role in self._world.processes if "shard" in role]

    async def _drained(self) -> None:
        await self._asked(DRAIN)

    async def _moved(self) -> None:
        await self._asked(pin_key(self._random.randrange(PARTITIONS)))

    async def _asked(self, key: str) -> None:
        """Somebody names a shard, and after a while does not want that any more."""
        world = self._world
        name = world.processes[self._random.choice(self._shards())].name
        world.etcd.settle()
        world.etcd.txn([], [Put(key, name.encode())])
        await self._for_a_while(1.0, 9.0)
        world.etcd.settle()
        world.etcd.txn([], [Delete(key)])
