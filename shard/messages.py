"""From a due entry to a message: the small, fixed form that goes to Kafka. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from shardwheel.ids import fire_id
from shardwheel.job import WaitingExecution
from shardwheel.missed import Span, fire_time
from shardwheel.ports import Message
from shardwheel.shard.forms import encode_fires, fire_ids
from shardwheel.timing import Timing
from shardwheel.topics import job_topic
from shardwheel.wire import FORMAT_VERSION, FireKind, encode_fire

# Up to this many missed times of a job are published one by one; more are one range, which its claim
# turns into a row that the owner expands: held back inside a cycle they would pin the watermark.
MOST_CAUGHT_UP = 100

# As plain numbers: msgpack takes enums the slow way.
_FIRE, _SKIP, _SKIP_RANGE, _CATCH_UP = (
    FireKind.FIRE.value,
    FireKind.SKIP.value,
    FireKind.SKIP_RANGE.value,
    FireKind.CATCH_UP_RANGE.value,
)


class Writer:
    """Writes the messages of a shard."""

    def __init__(self, topic_partitions: int) -> None:
        self._topic_partitions = topic_partitions

    def fires(
        self,
        job_ids: NDArray[np.void],
        partitions: NDArray[np.uint16],
        topics: Sequence[str],
        schedule_nos: NDArray[np.int64],
        scheduled_ms: NDArray[np.int64],
        dues_ms: NDArray[np.int64],
    ) -> Iterator[Message]:
        """A fire each of these jobs: the same as `fire` says one by one."""
        execution_ids = fire_ids(job_ids, partitions, scheduled_ms)
        values = encode_fires(execution_ids, job_ids, partitions, schedule_nos, scheduled_ms, dues_ms)
        places = (partitions % self._topic_partitions).tolist()
        # What `Message(…)` does, in a third of the time.
        return map(tuple.__new__, repeat(Message), zip(topics, places, job_ids.tolist(), values, strict=True))

    def fire(
        self, job_id: bytes, partition: int, topic: str, schedule_no: int, scheduled_ms: int, due_ms: int
    ) -> Message:
        execution_id = fire_id(job_id, partition, scheduled_ms)
        fields = (FORMAT_VERSION, _FIRE, execution_id, job_id, partition, schedule_no)
        value = encode_fire((*fields, scheduled_ms, due_ms, 1))
        return Message(topic, partition % self._topic_partitions, job_id, value)

    def waiting(self, entry: WaitingExecution) -> Message:
        fields = (FORMAT_VERSION, _FIRE, entry.execution_id, entry.job_id, entry.partition, 0)
        times = (entry.scheduled_ms, entry.due_ms, entry.attempt)
        topic = job_topic(entry.pool, entry.priority)
        place = entry.partition % self._topic_partitions
        return Message(topic, place, entry.job_id, encode_fire(fields + times))

    def span(
        self,
        job_id: bytes,
        partition: int,
        topic: str,
        schedule_no: int,
        timing: Timing,
        jitter_ms: int,
        span: Span,
    ) -> Iterator[Message]:
        """Times with one fate: one message each where they are few and run, else one for all."""
        count = timing.count_between(span.first_ms - 1, span.until_ms - 1)
        times = timing.times_between(span.first_ms - 1, span.until_ms - 1)
        if count == 1 and span.skip_as:
            yield self._record(_SKIP, job_id, partition, topic, schedule_no, next(times), 0, 0, span.skip_as)
        elif count and (span.skip_as or count > MOST_CAUGHT_UP):
            kind = _SKIP_RANGE if span.skip_as else _CATCH_UP
            first_ms = next(times)
            last_ms = span.until_ms - 1
            reason = span.skip_as or ""
            yield self._record(kind, job_id, partition, topic, schedule_no, first_ms, last_ms, count, reason)
        else:
            for scheduled_ms in times:
                due_ms = fire_time(timing.schedule, job_id, scheduled_ms, timing.anchor_ms, jitter_ms)
                yield self.fire(job_id, partition, topic, schedule_no, scheduled_ms, due_ms)

    def _record(
        self,
        kind: int,
        job_id: bytes,
        partition: int,
        topic: str,
        schedule_no: int,
        first_ms: int,
        until_ms: int,
        count: int,
        reason: str,
    ) -> Message:
        execution_id = fire_id(job_id, partition, first_ms)
        head = (FORMAT_VERSION, kind, execution_id, job_id, partition, schedule_no, first_ms, first_ms, 1)
        value = encode_fire((*head, b"", reason, until_ms, count))
        return Message(topic, partition % self._topic_partitions, job_id, value)
