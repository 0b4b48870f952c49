"""The Kafka producer: whole cycles out, "acknowledged up to here" back, without a callback a message.

librdkafka keeps each topic partition in order and without a gap (idempotent, `enable.gapless.guarantee`,
no message time-out). Whatever may have broken that (a fatal error, a failed delivery, no acknowledgement
for `stall_s`) ends the line: a new one publishes all that is unacknowledged again, in order.

There is no poller thread. The driver takes Python's global lock once for every message that it reports,
with a callback or without; a thread that polls beside a busy trio thread gets that lock once in 5 ms
(measured: 217K messages/s, acknowledgements 300 ms late, against 360K/s and 19 ms). Instead a task of the
trio thread polls, each millisecond while something is under way: so nothing here needs a lock, and no one
can see an acknowledgement that the observer was not told of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from shardwheel.cycles import Cycles
from shardwheel.errors import UnavailableError
from shardwheel.kafka_line import Line
from shardwheel.kafka_settings import producer_settings
from shardwheel.logs import get_logger
from shardwheel.ports import Message

# What is published is sent by the task within a millisecond; from this many on, by `publish` itself.
DEPART_MESSAGES = 1_000
# What one step hands to the driver at most: about 5 ms, so that publishing all again does not stop ticks.
STEP_MESSAGES = 5_000
POLL_S, LONGEST_POLL_S, IDLE_POLL_S = 0.001, 0.02, 1.0
# A further failure without an acknowledgement in between doubles both the pause and the patience, so that a
# broker that only needs longer than `stall_s` is not drowned in repetitions.
FIRST_BACKOFF_S, MOST_DOUBLINGS = 0.5, 4


class KafkaProducer:
    """`ports.Producer` on confluent-kafka."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        buffer_messages: int,
        stall_s: float,
        close_limit_s: float,
        on_acknowledged: Callable[[int], None] | None = None,
    ) -> None:
        self._log = get_logger(edge="kafka", client="producer")
        self._settings = producer_settings(settings, buffer_messages)
        self._stall_s = stall_s
        self._close_limit_s = close_limit_s
        self._cycles = Cycles(buffer_messages, on_acknowledged)
        self._line = Line(self._settings)
        self._wake = trio.Event()
        self._scope = trio.CancelScope()
        self._moved_at = trio.current_time()
        self._renew_at: float | None = None
        self._failures = 0
        self.renewals = 0
        trio.lowlevel.spawn_system_task(self._run, name="kafka producer")

    def publish(self, messages: Sequence[Message]) -> int:
        try:
            ticket = self._cycles.take(messages)
        except UnavailableError as error:
            said = self._line.failure or self._line.last_error or "nothing"
            raise UnavailableError(f"Kafka: {error} (the driver last said: {said})") from error
        if self._cycles.gathered >= DEPART_MESSAGES:
            self._depart()
            self._line.hand_over(STEP_MESSAGES)
        self._wake.set()
        return ticket

    @property
    def acknowledged(self) -> int:
        return self._cycles.acknowledged

    @property
    def room(self) -> int:
        return self._cycles.room

    async def wait_acknowledged(self, ticket: int) -> None:
        await self._cycles.wait_acknowledged(ticket)

    async def close(self) -> None:
        try:
            with trio.move_on_after(self._close_limit_s):
                await self._cycles.wait_acknowledged(self._cycles.last_ticket)
        finally:
            self._scope.cancel()
            self._cycles.close()
            await self._line.let_go()

    async def _run(self) -> None:
        with self._scope:
            while True:
                self._step(trio.current_time())
                await self._pause()

    async def _pause(self) -> None:
        """While something is under way, more gathers for a millisecond; else a publication wakes us."""
        if not self._cycles.settled:
            waited_s = trio.current_time() - self._moved_at
            await trio.sleep(min(LONGEST_POLL_S, max(POLL_S, waited_s / 20)))
            return
        with trio.move_on_after(IDLE_POLL_S):
            await self._wake.wait()
        self._wake = trio.Event()
        self._moved_at = trio.current_time()

    def _step(self, now: float) -> None:
        """Serve reports, send what was published, move the prefix. Never waits."""
        self._line.poll()
        self._depart()
        self._line.hand_over(STEP_MESSAGES)
        if self._cycles.settle():
            self._moved_at, self._failures = now, 0
        patience_s = self._grown(self._stall_s)
        if now - self._moved_at > patience_s:
            self._line.fail(f"no acknowledgement for {patience_s:g} s")
        if self._line.failure:
            self._renew_when_due(now)

    def _depart(self) -> None:
        flight = self._cycles.depart()
        if flight is not None and flight.messages:
            self._line.send(flight)

    def _renew_when_due(self, now: float) -> None:
        if self._renew_at is None:
            backoff_s = self._grown(FIRST_BACKOFF_S)
            self._log.warning("producing failed; trying anew", why=self._line.failure, in_s=backoff_s)
            self._renew_at = now + backoff_s
            self._failures += 1
        if now >= self._renew_at:
            self._renew()
            self._renew_at, self._moved_at = None, now

    def _grown(self, duration_s: float) -> float:
        return duration_s * float(2 ** min(self._failures, MOST_DOUBLINGS))

    def _renew(self) -> None:
        """A new line carries all that has not landed: what was sent before may arrive twice."""
        trio.lowlevel.spawn_system_task(self._line.let_go, name="kafka producer, let go")
        self._line = Line(self._settings)
        self.renewals += 1
        for flight in self._cycles.under_way:
            self._line.send(flight)
