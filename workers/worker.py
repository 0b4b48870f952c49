"""A worker: consume → claim → commit the offset → run → report, and heartbeats for all that it holds.

From the claim on the row and its lease carry the run, so the offset is committed before the handler starts:
a job of hours never meets Kafka's poll limit. A worker that dies loses nothing: its leases end, and the
sweep puts back what it held. SIGTERM: nothing more is taken, what runs has `stop_grace_s` to end, and the
rest is given back at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import trio

from shardwheel.batches import Batches
from shardwheel.errors import NotFoundError, UnavailableError, UsageError
from shardwheel.execution import Beat, Claimant, Claimed, ClaimReply, Held
from shardwheel.handler import Registry
from shardwheel.job import Priority
from shardwheel.limits import WorkerCard
from shardwheel.logs import get_logger
from shardwheel.metrics import DUPLICATES, FIRE_LATENESS, SKIPS
from shardwheel.ports import Bus, Consumer, Record
from shardwheel.service import Service
from shardwheel.topics import RESULTS, job_topic, workers_group
from shardwheel.wire import Fire, decode_fire
from shardwheel.workers.announce import AnnouncingStore, announce
from shardwheel.workers.crew import Crew
from shardwheel.workers.report import Reporter
from shardwheel.workers.run import End, Running

BATCH = 500
WAIT_S = 0.5
PAUSE_S = 0.5
HEARTBEAT_S = {"short": 10.0, "medium": 60.0, "long": 10.0}


class WorkerStore(AnnouncingStore, Protocol):
    """What a worker asks of the store."""

    async def claim(self, fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply: ...

    async def claimed_by(self, fires: Iterable[Fire], token: bytes) -> list[Claimed]: ...

    async def heartbeat(self, held: Sequence[Held], pool: str, results_generation: str) -> Beat: ...


class Worker:
    """One worker of one pool: at most `slots` attempts at a time."""

    def __init__(
        self,
        worker_id: str,
        service: Service,
        store: WorkerStore,
        bus: Bus,
        results_bus: Bus,
        registry: Registry,
        *,
        pool: str,
        now_ms: Callable[[], float],
        topic_partitions: int,
        slots: int = 1_000,
        threads: int = 40,
        stop_grace_s: float = 20.0,
    ) -> None:
        self.worker_id = worker_id
        self._service = service
        self._store = store
        self._bus = bus
        self._results_bus = results_bus
        self._registry = registry
        self._pool = pool
        self._now_ms = now_ms
        # As a function of the clock: handlers in threads ask it too.
        self._clock = trio.lowlevel.current_clock().current_time
        self._threads = trio.CapacityLimiter(threads)
        self._slots = slots
        self._stop_grace_s = stop_grace_s
        # By execution and claim: after a stall, or a fail-over that lost the claim, the next attempt may
        # come to the same worker while the one before still runs here.
        self._running: dict[tuple[bytes, bytes], Running] = {}
        self._freed = trio.Event()
        self._reporter = Reporter(results_bus, topic_partitions)
        self._log = get_logger(worker=worker_id)

    def add_to_service(self) -> None:
        self._service.add_loop("work", self._run)
        self._service.add_loop("announce", self._announce)

    async def _announce(self) -> None:
        tasks = tuple(sorted(self._registry.tasks))
        card = WorkerCard(self.worker_id, self._pool, tasks, self._slots, "")
        await announce(self._service, self._store, card)

    async def _run(self) -> None:
        """Three nurseries, ended one after the other: taking, running, and what reports and keeps alive."""
        async with trio.open_nursery() as alive:
            alive.start_soon(self._reporter.run)
            alive.start_soon(self._beat_on)
            async with trio.open_nursery() as runs:
                crew = Crew(runs, self._registry, self._threads, self._ended)
                async with trio.open_nursery() as takers:
                    for priority in Priority:
                        takers.start_soon(self._take, priority, crew)
                await self._wind_down()
                runs.cancel_scope.cancel()  # Only resting runners are left.
            await self._reporter.flush()
            alive.cancel_scope.cancel()

    async def _wind_down(self) -> None:
        """Nothing more is taken: let what runs end, then give the rest back."""
        with trio.move_on_after(self._stop_grace_s):
            await self._until_running(0)
        for running in list(self._running.values()):
            running.release()
        await self._until_running(0)

    async def _until_running(self, most: int) -> None:
        """Wait until at most so many attempts are in hand. Several takers may wait: all for one event."""
        while len(self._running) > most:
            if self._freed.is_set():
                self._freed = trio.Event()
            await self._freed.wait()

    # --- take and claim ------------------------------------------------------------------------------

    async def _take(self, priority: Priority, crew: Crew) -> None:
        consumer = self._bus.consumer(workers_group(self._pool), [job_topic(self._pool, priority)])

        async def claim_and_start(records: Sequence[Record]) -> None:
            crew.take_on(self._begin(await self._claim([(fire, priority) for fire in self._decode(records)])))

        async with trio.open_nursery() as claims:
            batches = Batches(consumer, claim_and_start, claims)
            try:
                while not self._service.stopping.is_set():
                    room = self._slots - len(self._running) - batches.in_work
                    if room > 0:
                        consumer.resume()
                        await batches.step(min(BATCH, room), WAIT_S)
                    elif batches.in_work:
                        await batches.finish()
                    else:
                        await self._wait_for_room(consumer)
                    self._service.health.well(f"take {priority.name.lower()}")
            finally:
                await batches.close()

    async def _wait_for_room(self, consumer: Consumer) -> None:
        """Mostly a slot is free again soon. If not, stay a member of the group meanwhile: pausing discards
        what was fetched ahead, so it comes second."""
        with trio.move_on_after(WAIT_S) as waited:
            await self._until_running(self._slots - 1)
        if waited.cancelled_caught:
            consumer.pause()
            await consumer.take(1, 0)

    async def _claim(self, fires: list[tuple[Fire, int]]) -> list[Claimed]:
        """Claim until it is known what became of it. A claim whose reply was lost may have been made: said
        again it changes nothing, and its token finds what the first one got."""
        claimant = Claimant(self.worker_id, self._pool, self._registry.tasks, uuid.uuid4().bytes)
        in_doubt = False
        while fires:
            try:
                reply = await self._store.claim(fires, claimant)
                for (state, reason), count in reply.recorded.items():
                    if state == "skipped":
                        SKIPS.labels(reason).inc(count)
                DUPLICATES.labels("claim").inc(reply.duplicates)
                if not in_doubt:
                    return reply.claimed
                return await self._store.claimed_by([fire for fire, _ in fires], claimant.token)
            except UnavailableError as error:
                in_doubt = True
                self._service.health.unwell("claim", str(error))
                await trio.sleep(PAUSE_S)
        return []

    def _decode(self, records: Sequence[Record]) -> list[Fire]:
        fires = []
        for record in records:
            try:
                fires.append(decode_fire(record.value))
            except UsageError as error:
                self._log.error("passed over", topic=record.topic, offset=record.offset, reason=str(error))
        return fires

    # --- run and report ------------------------------------------------------------------------------

    def _begin(self, claimed: Sequence[Claimed]) -> list[Running]:
        """Attempts in hand, from now on: their time runs."""
        now_ms, started_at = self._now_ms(), self._clock()
        FIRE_LATENESS.observe_all([max(0.0, now_ms - one.scheduled_ms) / 1000 for one in claimed])
        started_ms = round(now_ms)
        begun = [Running(one, started_ms, started_at, self._clock) for one in claimed]
        self._running |= {
            (one.execution_id, one.claim_token): running for one, running in zip(claimed, begun, strict=True)
        }
        return begun

    def _ended(self, running: Running, end: End) -> None:
        self._reporter.report(running.result(self.worker_id, end))
        del self._running[running.claimed.execution_id, running.claimed.claim_token]
        self._freed.set()

    # --- stay alive ----------------------------------------------------------------------------------

    async def _beat_on(self) -> None:
        while True:
            await trio.sleep(HEARTBEAT_S[self._pool])
            try:
                await self.beat()
                self._service.health.well("heartbeat")
            except (UnavailableError, NotFoundError) as error:
                self._service.health.unwell("heartbeat", str(error))

    async def beat(self) -> None:
        """Extend the leases of what runs and of what is reported but not settled yet."""
        generation = await self._results_bus.generation([RESULTS])
        held = [
            Held(one.claimed.execution_id, one.claimed.attempt, one.claimed.claim_token)
            for one in self._running.values()
        ]
        held += await self._reporter.unsettled(generation)
        if not held:
            return
        beat = await self._store.heartbeat(held, self._pool, generation)
        self._reporter.forget(one.execution_id for one in held if one.execution_id not in beat.ours)
        for (execution_id, _), running in self._running.items():
            if execution_id in beat.to_stop:
                running.stop()
