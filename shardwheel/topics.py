"""Kafka's topics: which there are, with how many topic partitions and what retention they are made.

    shardwheel.jobs.<pool>.<priority>     fires, key = job id, topic partition = partition mod n
    shardwheel.results                    results, key = job id; may live on another cluster
    shardwheel.dead-letters               dead letters, key = job id, as JSON (docs/dead-letters.md)

n is fixed for a cluster's life, like P: the claim floor reads end offsets by it.
"""

from __future__ import annotations

from shardwheel.job import Pool, Priority
from shardwheel.keeping import KAFKA_RETENTION_D
from shardwheel.ports import TopicSpec
from shardwheel.times import DAY_S

RESULTS = "shardwheel.results"
RESULTS_GROUP = "shardwheel.results"
DEAD_LETTERS = "shardwheel.dead-letters"

_DAY_MS = DAY_S * 1000
RETENTION_MS = KAFKA_RETENTION_D * _DAY_MS
DEAD_LETTER_RETENTION_MS = 14 * _DAY_MS


_JOB_TOPIC = {
    (pool.value, priority.value): f"shardwheel.jobs.{pool.value}.{priority.name.lower()}"
    for pool in Pool
    for priority in Priority
}
JOB_TOPICS = tuple(_JOB_TOPIC.values())


def job_topic(pool: str, priority: int) -> str:
    """Of enum members, or of their plain values as rows and entries hold them: the tick asks at each fire."""
    return _JOB_TOPIC[pool, priority]


def workers_group(pool: str) -> str:
    return f"shardwheel.workers.{pool}"


def job_topics(topic_partitions: int) -> list[TopicSpec]:
    """What must exist where fires go: a topic for each pool and priority, and the dead letters."""
    jobs = [TopicSpec(name, topic_partitions, RETENTION_MS) for name in JOB_TOPICS]
    return [*jobs, *letter_topics(topic_partitions)]


def letter_topics(topic_partitions: int) -> list[TopicSpec]:
    """What must exist where dead letters are mirrored: beside the jobs."""
    return [TopicSpec(DEAD_LETTERS, topic_partitions, DEAD_LETTER_RETENTION_MS)]


def result_topics(topic_partitions: int) -> list[TopicSpec]:
    """What must exist where results go, which may be another cluster."""
    return [TopicSpec(RESULTS, topic_partitions, RETENTION_MS)]
