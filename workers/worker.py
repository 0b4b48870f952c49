"""A worker: consume → claim → commit the offset → run → report, and heartbeats for all that it holds.

From the claim on the row and its lease carry the run, so the offset is committed before the handler starts:
a job of hours never meets Kafka's poll limit. A worker that dies loses nothing: its leases end, and the
sweep puts back what it held. SIGTERM: nothing more is taken, what runs has `stop_grace_s` to end, and the
rest is given back at once.

Each priority has a consumer and a taker of its own. A taker holds the messages that it took until there are
slots for them: so it is always known who wants how much, and scarce slots are shared by weight (`slots`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import trio

from shardwheel.batches import Batches, halved
from shardwheel.errors import NotFoundError, UnavailableError, UsageError
from shardwheel.execution import Beat, Claimant, Claimed, ClaimReply, Held
from shardwheel.handler import Registry
from shardwheel.job import Priority
from shardwheel.limits import WorkerCard
from shardwheel.logs import get_logger
from shardwheel.metrics import ABANDONED, DUPLICATES, FIRE_LATENESS, SKIPS
from shardwheel.ports import Bus, Record
from shardwheel.service import Service
from shardwheel.topics import RESULTS, job_topic, workers_group
from shardwheel.wire import Fire, decode_fire
from shardwheel.workers.announce import AnnouncingStore, announce
from shardwheel.workers.crew import Crew
from shardwheel.workers.fetching import Fetching, FetchingStore
from shardwheel.workers.isolated import Isolation, require_isolation
from shardwheel.workers.notes import Notes, NotesStore, ThreadDesk
from shardwheel.workers.report import Reporter
from shardwheel.workers.run import End, Running, Workshop
from shardwheel.workers.secrets import EnvironmentSecrets, Provider
from shardwheel.workers.slots import Slots

BATCH = 500
WAIT_S = 0.5
PAUSE_S = 0.5
HEARTBEAT_S = {"short": 10.0, "medium": 60.0, "long": 10.0}
# How long a wish to stop takes to arrive, and how late a handler that can't be cancelled is given up.
WATCH_S = 1.0
# For so long nothing else of this worker had its turn, heartbeats included.
BLOCKED_S = 2.0


class WorkerStore(AnnouncingStore, FetchingStore, NotesStore, Protocol):
    """What a worker asks of the store."""

    async def claim(self, fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply: ...

    async def claimed_by(self, fires: Iterable[Fire], token: bytes) -> list[Claimed]: ...

    async def to_stop(self, worker: str) -> frozenset[bytes]: ...

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
        poke: Callable[[Iterable[int]], None] = lambda _partitions: None,
        secrets: Provider | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        self.worker_id = worker_id
        self._poke = poke
        self._service = service
        self._store = store
        self._bus = bus
        self._results_bus = results_bus
        self._registry = registry
        require_isolation(registry, isolation)
        self._pool = pool
        self._now_ms = now_ms
        # As a function of the clock: handlers in threads ask it too.
        self._clock = trio.lowlevel.current_clock().current_time
        self._notes = Notes(store, now_ms)
        self._workshop = Workshop(
            trio.CapacityLimiter(threads),
            self._notes,
            ThreadDesk(self._notes),
            secrets or EnvironmentSecrets(),
            isolation,
        )
        self._isolation = isolation
        self._slots = Slots(slots)
        self._batch = min(BATCH, slots)
        self._fetching = Fetching(
            service, store, self._slots, pool=pool, tasks=registry.tasks, most=self._batch
        )
        self._stop_grace_s = stop_grace_s
        # By execution and claim: after a stall, or a fail-over that lost the claim, the next attempt may
        # come to the same worker while the one before still runs here.
        self._running: dict[tuple[bytes, bytes], Running] = {}
        self._reporter = Reporter(results_bus, topic_partitions)
        self._log = get_logger(worker=worker_id)

    def add_to_service(self) -> None:
        self._service.add_loop("work", self._run)
        self._service.add_loop("announce", self._announce)

    async def _announce(self) -> None:
        tasks = tuple(sorted(self._registry.tasks))
        card = WorkerCard(self.worker_id, self._pool, tasks, self._slots.total, "")
        await announce(self._service, self._store, card)

    async def _run(self) -> None:
        """Three nurseries, ended one after the other: taking, running, and what reports and keeps alive."""
        async with trio.open_nursery() as alive:
            alive.start_soon(self._reporter.run)
            alive.start_soon(self._notes.run)
            if self._isolation is not None:
                await alive.start(self._isolation.run)
            alive.start_soon(self._beat_on)
            alive.start_soon(self._watch_on)
            alive.start_soon(self._slots.run)
            async with trio.open_nursery() as runs:
                crew = Crew(runs, self._registry, self._workshop, self._ended)
                async with trio.open_nursery() as takers:
                    for priority in Priority:
                        takers.start_soon(self._take, priority, crew)
                    takers.start_soon(self._fetching.run, partial(self._start, crew, where="fetch"))
                    await self._service.stopping.wait()
                    self._slots.close()
                await self._wind_down()
                runs.cancel_scope.cancel()  # Only resting runners are left.
            await self._reporter.flush()
            alive.cancel_scope.cancel()

    async def _wind_down(self) -> None:
        """Nothing more is taken: let what runs end, then give the rest back."""
        with trio.move_on_after(self._stop_grace_s):
            await self._slots.until_free()
        for running in list(self._running.values()):
            running.release()
        await self._slots.until_free()

    # --- take and claim ------------------------------------------------------------------------------

    async def _take(self, priority: Priority, crew: Crew) -> None:
        consumer = self._bus.consumer(workers_group(self._pool), [job_topic(self._pool, priority)])

        async def claim_and_start(records: Sequence[Record]) -> int:
            """As slots come free: the last ones may have to wait for hours."""
            done = 0
            while done < len(records):
                count = await self._slots.take(priority, len(records) - done)
                if count == 0:
                    break
                part = records[done : done + count]
                await self._start(crew, [(fire, priority) for fire in self._decode(part)], count)
                done += count
                batches.dealt_with(records[:done])
            return done

        async with trio.open_nursery() as claims:
            batches = Batches(consumer, claim_and_start, claims)
            try:
                while not self._service.stopping.is_set():
                    await batches.step(self._batch, WAIT_S)
                    self._service.health.well(f"take {priority.name.lower()}")
            finally:
                await batches.close()

    async def _start(
        self, crew: Crew, fires: list[tuple[Fire, int]], slots: int, where: str = "claim"
    ) -> None:
        """Claim these, for which slots were taken, and begin what was claimed. What does not fit into the
        time that one transaction may take, since hundreds of DAG runs begin with it, is claimed by halves."""
        claimant = Claimant(self.worker_id, self._pool, self._registry.tasks, uuid.uuid4().bytes)
        most, in_doubt = len(fires), False
        while fires:
            part = fires[:most]
            try:
                claimed = await self._claim(part, claimant, where, in_doubt=in_doubt)
            except UnavailableError as error:
                in_doubt, most = True, halved(most)
                self._service.health.unwell("claim", str(error))
                await trio.sleep(PAUSE_S)
                continue
            # A repeat of what has begun is a duplicate, and asking by the token would find it once more.
            begun, rest = {one.execution_id for one in claimed}, fires[most:]
            fires = [one for one in rest if one[0].execution_id not in begun]
            DUPLICATES.labels(where).inc(len(rest) - len(fires))
            slots -= len(claimed)
            crew.take_on(self._begin(claimed))
        self._slots.free(slots)

    async def _claim(
        self, fires: list[tuple[Fire, int]], claimant: Claimant, where: str, *, in_doubt: bool
    ) -> list[Claimed]:
        """What may run. A claim whose reply was lost may have been made (`in_doubt`): said again it changes
        nothing, and its token finds what the first one got."""
        reply = await self._store.claim(fires, claimant)
        self._service.health.well("claim")
        for (state, reason), count in reply.recorded.items():
            if state == "skipped":
                SKIPS.labels(reason).inc(count)
        DUPLICATES.labels(where).inc(reply.duplicates)
        self._poke(reply.queued)
        if not in_doubt:
            return reply.claimed
        return await self._store.claimed_by([fire for fire, _ in fires], claimant.token)

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
        if running.is_over:  # It was given up long ago, and now it has ended after all.
            ABANDONED.dec()
            return
        running.is_over = True
        # Its last words first, if it has any: once its result is settled nobody would believe them.
        if self._notes.has(running.claimed):
            self._notes.leave(running.claimed, lambda: self._leave(running, end))
        else:
            self._leave(running, end)

    def _leave(self, running: Running, end: End) -> None:
        self._reporter.report(running.result(self.worker_id, end))
        del self._running[running.claimed.execution_id, running.claimed.claim_token]
        self._slots.free(1)

    # --- stay alive ----------------------------------------------------------------------------------

    async def _beat_on(self) -> None:
        while True:
            await trio.sleep(HEARTBEAT_S[self._pool])
            try:
                await self.beat()
                self._service.health.well("heartbeat")
            except (UnavailableError, NotFoundError) as error:
                self._service.health.unwell("heartbeat", str(error))

    async def _watch_on(self) -> None:
        while True:
            wakes_at = self._clock() + WATCH_S
            await trio.sleep(WATCH_S)
            if (late_s := self._clock() - wakes_at) > BLOCKED_S:
                self._log.warning(
                    "an async handler blocks all others: let it wait, or make it plain", late_s=late_s
                )
            self._give_up_the_hopeless()
            try:
                await self._stop_the_unwanted()
                self._service.health.well("watch")
            except UnavailableError as error:
                self._service.health.unwell("watch", str(error))

    def _give_up_the_hopeless(self) -> None:
        """Those that time-outs and wishes to stop do not reach: for us they end here."""
        now = self._clock()
        for running in [one for one in self._running.values() if one.is_hopeless(now)]:
            self._log.warning("a handler is given up: it can't be cancelled", task=running.claimed.task)
            ABANDONED.inc()
            self._ended(running, running.give_up())

    async def _stop_the_unwanted(self) -> None:
        """Heartbeats tell it too, but those of a pool of long leases are a minute apart."""
        if self._running:
            self._stop(await self._store.to_stop(self.worker_id))

    def _stop(self, unwanted: frozenset[bytes]) -> None:
        if unwanted:
            for (execution_id, _), running in self._running.items():
                if execution_id in unwanted:
                    running.stop()

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
        self._stop(beat.to_stop)
        for one in held:
            running = self._running.get((one.execution_id, one.claim_token))
            if running is not None and one.execution_id not in beat.ours:
                # Another attempt takes over: nothing that this one does counts any more.
                self._log.warning("an attempt was lost", task=running.claimed.task)
                running.release()
