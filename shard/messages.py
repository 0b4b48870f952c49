"""From a due entry to a message: the small, fixed form that goes to Kafka. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from shardwheel.ids import fire_id
from shardwheel.job import WaitingExecution
from shardwheel.missed import Span, fire_time
from shardwheel.ports import Message
from shardwheel.timing import Timing
from shardwheel.topics import job_topic
from shardwheel.wire import FORMAT_VERSION, FireKind, encode_fire

# Up to this many missed times of a job are published one by one; more are one range, which its claim
# turns into a row that the owner expands: held back inside a cycle they would pin the watermark.
MOST_CAUGHT_UP = 100

# As plain numbers: the hot path encodes a tuple, and msgpack takes enums the slow way.
_FIRE, _SKIP, _SKIP_RANGE, _CATCH_UP = (
    FireKind.FIRE.value,
    FireKind.SKIP.value,
    FireKind.SKIP_RANGE.value,
    FireKind.CATCH_UP_RANGE.value,
)


class Writer:
    """Writes the messages of one partition."""

    def __init__(self, partition: int, topic_partitions: int) -> None:
        self._partition = partition
        self._topic_partition = partition % topic_partitions

    def fire(self, job_id: bytes, topic: str, schedule_no: int, scheduled_ms: int, due_ms: int) -> Message:
        partition = self._partition
        execution_id = fire_id(job_id, partition, scheduled_ms)
        fields = (
            FORMAT_VERSION,
            _FIRE,
            execution_id,
            job_id,
            partition,
            schedule_no,
            scheduled_ms,
            due_ms,
            1,
        )
        return Message(topic, self._topic_partition, job_id, encode_fire(fields))

    def waiting(self, entry: WaitingExecution) -> Message:
        fields = (FORMAT_VERSION, _FIRE, entry.execution_id, entry.job_id, self._partition, 0)
        times = (entry.scheduled_ms, entry.due_ms, entry.attempt)
        topic = job_topic(entry.pool, entry.priority)
        return Message(topic, self._topic_partition, entry.job_id, encode_fire(fields + times))

    def span(
        self, job_id: bytes, topic: str, schedule_no: int, timing: Timing, jitter_ms: int, span: Span
    ) -> Iterator[Message]:
        """Times with one fate: one message each where they are few and run, else one for all."""
        count = timing.count_between(span.first_ms - 1, span.until_ms - 1)
        times = timing.times_between(span.first_ms - 1, span.until_ms - 1)
        if count == 1 and span.skip_as:
            yield self._record(_SKIP, job_id, topic, schedule_no, next(times), 0, 0, span.skip_as)
        elif count and (span.skip_as or count > MOST_CAUGHT_UP):
            kind = _SKIP_RANGE if span.skip_as else _CATCH_UP
            first_ms = next(times)
            last_ms = span.until_ms - 1
            yield self._record(kind, job_id, topic, schedule_no, first_ms, last_ms, count, span.skip_as or "")
        else:
            for scheduled_ms in times:
                due_ms = fire_time(timing.schedule, job_id, scheduled_ms, timing.anchor_ms, jitter_ms)
                yield self.fire(job_id, topic, schedule_no, scheduled_ms, due_ms)

    def _record(
        self,
        kind: int,
        job_id: bytes,
        topic: str,
        schedule_no: int,
        first_ms: int,
        until_ms: int,
        count: int,
        reason: str,
    ) -> Message:
        partition = self._partition
        execution_id = fire_id(job_id, partition, first_ms)
        head = (FORMAT_VERSION, kind, execution_id, job_id, partition, schedule_no, first_ms, first_ms, 1)
        value = encode_fire((*head, b"", reason, until_ms, count))
        return Message(topic, self._topic_partition, job_id, value)
