"""Questions to Kafka's controller and coordinators: topics, ids, offsets. Blocking; each with a time limit.

`Kafka` calls these in threads. Every function raises `UnavailableError` when no answer comes within
`limit_s`, and `NotFoundError` for topics that are not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as DriverTopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # They do not say what they export.
    AdminClient,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from shardwheel.errors import NotFoundError, UnavailableError, UsageError
from shardwheel.ports import TopicPartition, TopicSpec
from shardwheel.times import DAY_S

_Answer = TypeVar("_Answer")

# The driver's own limit comes first; this much later we stop believing in it.
_GRACE_S = 1.0

# What brokers answer for a moment after a topic was made, and while they end or start.
_PASSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,
    KafkaError._TRANSPORT,
}


def connect(settings: Mapping[str, Any]) -> AdminClient:
    try:
        return AdminClient(dict(settings))
    except (KafkaException, TypeError, ValueError) as error:
        raise UsageError(f"kafka_settings: {error}", field="kafka_settings") from error


def connect_reader(settings: Mapping[str, Any], group: str) -> Consumer:
    """A consumer that never joins its group, only asks where it stands. The AdminClient's own call for that
    kills the process when the coordinator is not ready (librdkafka 2.16 follows a null pointer)."""
    return Consumer({**settings, "group.id": group, "enable.auto.commit": False})


def answer(future: Future[_Answer], limit_s: float) -> _Answer:
    try:
        return future.result(limit_s + _GRACE_S)
    except (KafkaException, FutureTimeoutError) as error:
        raise UnavailableError(f"Kafka: {error or 'no answer in time'}") from error


def is_passing(error: UnavailableError) -> bool:
    """Would the same question soon be answered?"""
    return _code(error) in _PASSING


def ensure_topics(admin: AdminClient, specs: Sequence[TopicSpec], limit_s: float) -> None:
    """Make what is missing. What was just made is not known everywhere at once: a passing error says so."""
    names = [spec.name for spec in specs]
    found = _describe(admin, names, limit_s)
    missing = [spec for spec in specs if spec.name not in found]
    if missing:
        _create(admin, missing, limit_s)
        found = {name: answer(future, limit_s) for name, future in _ask_for(admin, names, limit_s).items()}
    _check(specs, found)
    _offsets(admin, _places(found), OffsetSpec.latest(), limit_s)  # type: ignore[no-untyped-call]


def _check(specs: Sequence[TopicSpec], found: Mapping[str, TopicDescription]) -> None:
    for spec in specs:
        count = len(found[spec.name].partitions)
        if count != spec.topic_partitions:
            raise UsageError(
                f"topic {spec.name} has {count} topic partitions, not {spec.topic_partitions}: the number is "
                "fixed for a cluster's life; set topic_partitions to what is there",
                field="topic_partitions",
            )


def _config(spec: TopicSpec) -> dict[str, str]:
    """A segment of the log goes as a whole, once its last record is old enough: so it spans a day at most."""
    return {"retention.ms": str(spec.retention_ms), "segment.ms": str(min(spec.retention_ms, DAY_S * 1000))}


def _create(admin: AdminClient, specs: Sequence[TopicSpec], limit_s: float) -> None:
    """Another process may create them at the same time: whoever is first."""
    topics = [NewTopic(spec.name, spec.topic_partitions, config=_config(spec)) for spec in specs]
    asked = admin.create_topics(topics, request_timeout=limit_s, operation_timeout=limit_s)
    for future in asked.values():
        try:
            answer(future, limit_s)
        except UnavailableError as error:
            if _code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def generation(admin: AdminClient, topics: Sequence[str], limit_s: float) -> str:
    """ "cluster id:digest of the topics' ids": the cluster's part is readable, the other one short."""
    found = _require(admin, topics, limit_s)
    ids = "\n".join(f"{name} {found[name].topic_id}" for name in sorted(found))
    return f"{_cluster_id(admin, limit_s)}:{hashlib.blake2b(ids.encode(), digest_size=8).hexdigest()}"


def _cluster_id(admin: AdminClient, limit_s: float) -> str:
    """Not by `describe_cluster`: a broker that is fenced (its heartbeat was late, as on a busy machine) names
    no broker at all in its answer, and librdkafka 2.16 then ends the process by an assertion."""
    try:
        cluster_id = admin.list_topics(timeout=limit_s).cluster_id
    except KafkaException as error:
        raise UnavailableError(f"Kafka: {error}") from error
    if not cluster_id:
        raise UnavailableError("Kafka: the broker does not know its cluster yet")
    return str(cluster_id)


def start_offsets(admin: AdminClient, topics: Sequence[str], limit_s: float) -> dict[TopicPartition, int]:
    return _offsets(admin, places(admin, topics, limit_s), OffsetSpec.earliest(), limit_s)  # type: ignore[no-untyped-call]


def end_offsets(admin: AdminClient, topics: Sequence[str], limit_s: float) -> dict[TopicPartition, int]:
    return _offsets(admin, places(admin, topics, limit_s), OffsetSpec.latest(), limit_s)  # type: ignore[no-untyped-call]


def _offsets(
    admin: AdminClient, wanted: Sequence[DriverTopicPartition], spec: OffsetSpec, limit_s: float
) -> dict[TopicPartition, int]:
    asked = admin.list_offsets(dict.fromkeys(wanted, spec), request_timeout=limit_s)
    return {
        TopicPartition(place.topic, place.partition): answer(future, limit_s).offset
        for place, future in asked.items()
    }


def committed_offsets(
    reader: Consumer, places: Sequence[DriverTopicPartition], limit_s: float
) -> dict[TopicPartition, int]:
    try:
        found = reader.committed(list(places), limit_s)
    except KafkaException as error:
        raise UnavailableError(f"Kafka: {error}") from error
    for place in found:
        if place.error is not None:
            raise UnavailableError(f"Kafka: {place.error}") from KafkaException(place.error)
    return {
        TopicPartition(place.topic, place.partition): place.offset for place in found if place.offset >= 0
    }


def places(admin: AdminClient, topics: Sequence[str], limit_s: float) -> list[DriverTopicPartition]:
    return _places(_require(admin, topics, limit_s))


def _places(found: Mapping[str, TopicDescription]) -> list[DriverTopicPartition]:
    return [
        DriverTopicPartition(name, partition.id)
        for name in sorted(found)
        for partition in found[name].partitions
    ]


def _require(admin: AdminClient, topics: Sequence[str], limit_s: float) -> dict[str, TopicDescription]:
    found = _describe(admin, topics, limit_s)
    missing = sorted(set(topics) - set(found))
    if missing:
        raise NotFoundError(f"Kafka has no topic {', '.join(missing)}", field="topics")
    return found


def _describe(admin: AdminClient, topics: Sequence[str], limit_s: float) -> dict[str, TopicDescription]:
    """The topics that are there."""
    found: dict[str, TopicDescription] = {}
    for name, future in _ask_for(admin, topics, limit_s).items():
        try:
            found[name] = answer(future, limit_s)
        except UnavailableError as error:
            if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def _ask_for(
    admin: AdminClient, topics: Sequence[str], limit_s: float
) -> dict[str, Future[TopicDescription]]:
    return admin.describe_topics(TopicCollection(list(topics)), request_timeout=limit_s)


def _code(error: UnavailableError) -> int | None:
    cause = error.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None
