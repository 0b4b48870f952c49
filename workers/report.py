"""Reporting: results go to Kafka in small batches, and are remembered until they are known to be settled.

A result that is acknowledged and not settled when leases are extended says where it stands: below the end
of its topic partition, read after the acknowledgement. The sweep then waits for the result processor
instead of running finished work again. Mostly the processor has passed that place by the next heartbeat,
and nothing needs to be said: a quick worker's heartbeat costs nothing in the database.

    result sent ── acknowledged ── heartbeat: "before offset 70" ── heartbeat: processor at 90, forgotten
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from shardwheel.errors import UnavailableError
from shardwheel.execution import Held
from shardwheel.ports import Bus, Message, TopicPartition
from shardwheel.topics import RESULTS, RESULTS_GROUP
from shardwheel.wire import Result, encode_result

# The first result goes at once; those that follow within this time go together.
GATHER_S = 0.005
FLUSH_LIMIT_S = 10.0


class _Sent:
    """A published result: its ticket, and, once known, an offset that it lies below."""

    __slots__ = ("below", "result", "ticket")

    def __init__(self, result: Result, ticket: int) -> None:
        self.result = result
        self.ticket = ticket
        self.below: int | None = None


class Reporter:
    def __init__(self, bus: Bus, topic_partitions: int) -> None:
        self._bus = bus
        self._topic_partitions = topic_partitions
        self._producer = bus.producer()
        self._waiting: list[Result] = []
        self._more = trio.Event()
        self._sent: dict[bytes, _Sent] = {}
        self._generation = ""

    def report(self, result: Result) -> None:
        self._waiting.append(result)
        self._more.set()

    async def run(self) -> None:
        """Publish what is reported, in batches; until cancelled."""
        try:
            while True:
                await self._more.wait()
                self.publish()
                await trio.sleep(GATHER_S)
        finally:
            with trio.CancelScope(shield=True):
                await self._producer.close()

    def publish(self) -> None:
        """Hand what is waiting to the producer; what it has no room for stays, and keeps us awake."""
        results = self._waiting
        try:
            ticket = self._producer.publish([self._message(result) for result in results])
        except UnavailableError:
            return
        self._waiting, self._more = [], trio.Event()
        self._sent |= {result.execution_id: _Sent(result, ticket) for result in results}

    async def flush(self) -> None:
        """Everything reported is with the broker, or the limit has passed: leases bring it back then."""
        with trio.move_on_after(FLUSH_LIMIT_S):
            while self._waiting:
                self.publish()
                await trio.sleep(GATHER_S)
            await self._producer.wait_acknowledged(
                max((sent.ticket for sent in self._sent.values()), default=0)
            )

    async def unsettled(self, generation: str) -> list[Held]:
        """What may be finished but not settled when its lease ends: to be extended with the next heartbeat.
        What the processor has passed is forgotten. `generation` names Kafka's data as it is now."""
        if generation != self._generation:
            self._start_over(generation)
        if not self._sent:
            return []
        acknowledged = self._producer.acknowledged
        ends = await self._bus.end_offsets([RESULTS])
        passed = await self._bus.committed_offsets(RESULTS_GROUP, [RESULTS])
        held = []
        for execution_id, sent in list(self._sent.items()):
            place = TopicPartition(RESULTS, sent.result.partition % self._topic_partitions)
            if sent.below is None and sent.ticket <= acknowledged:
                sent.below = ends[place]  # Its lease lasts for more than one heartbeat: no word yet.
            elif sent.below is not None and passed.get(place, 0) >= sent.below:
                del self._sent[execution_id]
            else:
                offset = -1 if sent.below is None else sent.below - 1
                held.append(_held(sent.result, place.topic_partition, offset))
        return held

    def _start_over(self, generation: str) -> None:
        """Kafka's data was lost, and perhaps results with it: say them again (one that was settled changes
        nothing). Their old offsets would keep the leases alive for as long as the new topic is shorter."""
        lost = [sent.result for sent in self._sent.values()] if self._generation else []
        self._generation = generation
        self._sent.clear()
        for result in lost:
            self.report(result)

    def forget(self, settled: Iterable[bytes]) -> None:
        for execution_id in settled:
            self._sent.pop(execution_id, None)

    def _message(self, result: Result) -> Message:
        place = result.partition % self._topic_partitions
        return Message(RESULTS, place, result.job_id, encode_result(result))


def _held(result: Result, topic_partition: int, offset: int) -> Held:
    return Held(result.execution_id, result.attempt, result.claim_token, topic_partition, offset)
