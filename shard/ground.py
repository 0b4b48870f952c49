"""The ground: which Kafka data and which PostgreSQL a shard stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shardwheel.errors import NotFoundError
from shardwheel.ports import Bus, Identity, Store, TopicSpec
from shardwheel.topics import JOB_TOPICS, job_topics


class Ground(NamedTuple):
    generation: str
    identity: Identity


async def read_ground(store: Store, bus: Bus, topic_partitions: int) -> Ground:
    generation = await generation_of(bus, JOB_TOPICS, job_topics(topic_partitions))
    return Ground(generation, await store.identity())


async def generation_of(bus: Bus, topics: Sequence[str], specs: Sequence[TopicSpec]) -> str:
    """Kafka's generation; topics that are gone with Kafka's data are made anew."""
    try:
        return await bus.generation(topics)
    except NotFoundError:
        await bus.ensure_topics(specs)
        return await bus.generation(topics)
