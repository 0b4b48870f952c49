"""The claim floor: the leader's word that everything fired up to (T, X) has met the claim.

    read the stored (T, X)  →  read the end offsets  →  wait until the workers' groups have passed them
    →  store (T, X) as the floor, where Kafka's data and PostgreSQL are still those it was read under

Read in this order: what was fired up to T lies below the end offsets that are read after it.

What is read for it also says how far the workers lag and how old the oldest floor is: two metrics that only
the leader sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from shardwheel.errors import UnavailableError
from shardwheel.job import Pool, Priority
from shardwheel.metrics import FLOOR_AGE, POOL_LAG
from shardwheel.partition import PARTITIONS
from shardwheel.ports import Bus, PartitionState, TopicPartition
from shardwheel.topics import JOB_TOPICS, job_topic, workers_group


class FloorStore(Protocol):
    """What the floor asks of the store."""

    async def partitions(self, partitions: Sequence[int]) -> list[PartitionState]: ...

    async def store_floors(self, fired: Sequence[PartitionState]) -> int: ...


class _Candidate(NamedTuple):
    """Partitions of one topic partition as they were stored, and where its topics ended right after."""

    states: list[PartitionState]
    ends: dict[TopicPartition, int]


class FloorMover:
    """Moves the floors, topic partition by topic partition: a pool that lags holds back its own alone.
    `run_once` looks how far the workers are; it never waits for them."""

    def __init__(self, store: FloorStore, bus: Bus, now_ms: Callable[[], float]) -> None:
        self._store = store
        self._bus = bus
        self._now_ms = now_ms
        self._generation = ""
        self._candidates: dict[int, _Candidate] = {}

    async def run_once(self) -> int:
        """Store the floors whose messages were all claimed meanwhile; returns how many moved."""
        ends, states = await self._look()
        committed = await self._committed()
        self._tell(ends, committed, states)
        await self._require_generation(self._generation)
        moved = 0
        for topic_partition, candidate in list(self._candidates.items()):
            if all(committed.get(place, 0) >= end for place, end in candidate.ends.items()):
                moved += await self._store.store_floors(candidate.states)
                del self._candidates[topic_partition]
        return moved

    def fall_silent(self) -> None:
        """Another shard leads and says these figures now."""
        POOL_LAG.clear()
        FLOOR_AGE.set(0)

    def _tell(
        self,
        ends: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, int],
        states: Sequence[PartitionState],
    ) -> None:
        lags = dict.fromkeys(JOB_TOPICS, 0)
        for place, end in ends.items():
            lags[place.topic] += max(0, end - committed.get(place, 0))
        for pool in Pool:
            for priority in Priority:
                POOL_LAG.labels(pool.value, priority.name.lower()).set(lags[job_topic(pool, priority)])
        # One that has none yet has not been fired for long either.
        oldest_ms = min((s.floor_ms for s in states if s.floor_ms), default=self._now_ms())
        FLOOR_AGE.set(max(0.0, self._now_ms() - oldest_ms) / 1000)

    async def _look(self) -> tuple[Mapping[TopicPartition, int], Sequence[PartitionState]]:
        """Make a candidate of every topic partition that has none. First the tables, then the ends."""
        generation = await self._bus.generation(JOB_TOPICS)
        states = await self._store.partitions(range(PARTITIONS))
        ends = await self._bus.end_offsets(JOB_TOPICS)
        await self._require_generation(generation)
        if generation != self._generation:
            self._generation = generation
            self._candidates.clear()
        n = len({place.topic_partition for place in ends})
        identity = max((state.identity for state in states), default=None)
        fired = [s for s in states if s.kafka_generation == generation and s.identity == identity]
        for topic_partition in range(n):
            if topic_partition not in self._candidates:
                self._candidates[topic_partition] = _Candidate(
                    [state for state in fired if state.partition % n == topic_partition],
                    {place: end for place, end in ends.items() if place.topic_partition == topic_partition},
                )
        return ends, states

    async def _require_generation(self, generation: str) -> None:
        """What was read since is of one Kafka: offsets of two can't be compared."""
        if generation != await self._bus.generation(JOB_TOPICS):
            raise UnavailableError("Kafka's data changed while the floor was read")

    async def _committed(self) -> dict[TopicPartition, int]:
        committed: dict[TopicPartition, int] = {}
        for pool in Pool:
            topics = [job_topic(pool, priority) for priority in Priority]
            committed |= await self._bus.committed_offsets(workers_group(pool), topics)
        return committed
