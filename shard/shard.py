"""A scheduler shard: the loops around owner, intake, ticker and sweep. The only place here that waits.

    tick        every few ms     clock → wheels → Kafka; awaits nothing else
    intake      1 s, or poked    what changed → wheels
    watermarks  1 s              (T, X) → PostgreSQL, fenced
    own         1 s              keys and epochs; Kafka's and PostgreSQL's identity
    lease       TTL / 4          a sign of life; lost → the process ends and starts over as somebody new
    clock       3 s              the database's clock
    sweep       2 s              what events may have missed

Each loop says in `/healthz` whether it is well. A server that is away makes its loop wait and try again; the
others go on. Cut off from etcd and PostgreSQL both for `isolation_limit_s`, the shard stops firing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from shardwheel.clock import DatabaseClock
from shardwheel.errors import NotFoundError, OwnershipError, UnavailableError
from shardwheel.execution import ResultsStand
from shardwheel.logs import get_logger
from shardwheel.metrics import (
    CLOCK_OFFSET,
    CLOCK_UNCERTAINTY,
    PARTITIONS_OWNED,
    SHARD_HEARTBEAT_AGE,
    WHEEL_ENTRIES,
)
from shardwheel.ports import Bus, Leases, Put, TopicSpec
from shardwheel.service import Service
from shardwheel.shard.holding import Holding
from shardwheel.shard.intake import Intake
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.owner import Owner, OwnerStore
from shardwheel.shard.ticker import Ticker
from shardwheel.topics import JOB_TOPICS, RESULTS, RESULTS_GROUP, job_topics, result_topics

TICK_S = 0.004
EXPANDED_AT_ONCE = 2_000


class ShardStore(OwnerStore, Protocol):
    """What a shard asks of the store."""

    async def sweep_lost(self, partitions: list[int], stand: ResultsStand) -> dict[str, int]: ...
    async def sweep_held(self, partitions: list[int]) -> int: ...
    async def sweep_completed(self, partitions: list[int]) -> int: ...
    async def sweep_overdue(self, partitions: list[int]) -> int: ...
    async def expand_work(self, partitions: list[int], most: int) -> int: ...
    async def make_months(self) -> list[str]: ...


class Shard:
    """One shard's parts, and the loops that drive them on a `Service`."""

    def __init__(
        self,
        shard_id: str,
        service: Service,
        store: ShardStore,
        bus: Bus,
        results_bus: Bus,
        leases: Leases,
        *,
        monotonic: Callable[[], float],
        topic_partitions: int,
        lease_ttl_s: int = 3,
        isolation_limit_s: float = 60.0,
        tick_s: float = TICK_S,
    ) -> None:
        self.shard_id = shard_id
        self._service = service
        self._store = store
        self._bus = bus
        self._results_bus = results_bus
        self._leases = leases
        self._topic_partitions = topic_partitions
        self._lease_ttl_s = lease_ttl_s
        self._isolation_limit_s = isolation_limit_s
        self._tick_s = tick_s
        self._lease = 0
        self._poked = trio.Event()
        self._heard = {"etcd": trio.current_time(), "postgres": trio.current_time()}
        self.clock = DatabaseClock(monotonic)
        self.holdings: dict[int, Holding] = {}
        self._ledger = Ledger()
        self._intake = Intake(store, topic_partitions)
        self._owner = Owner(shard_id, store, leases, self._intake, self._ledger, self.holdings)
        self._log = get_logger(shard=shard_id)
        self._rounds = 0

    @property
    def lease(self) -> int:
        return self._lease

    def poke(self) -> None:
        """Something of ours changed: read at once. A hint, no more."""
        self._poked.set()

    async def join(self) -> None:
        """Become a member, with a lease of one's own, and measure the clock. Waits for the servers."""
        await self._until_reached("etcd", self._register)
        await self._until_reached("postgres", lambda: self.clock.run_once(self._store))

    def add_to_service(self) -> None:
        """Every loop runs until the service stops; the last one hands the partitions over."""
        every = self._every
        self._service.add_loop("lease", every("etcd", self._lease_ttl_s / 4, self._keep_alive))
        self._service.add_loop("own", every("own", 1.0, self._own))
        self._service.add_loop("clock", every("clock", 3.0, self._measure_clock))
        self._service.add_loop("intake", self._take_in)
        self._service.add_loop("sweep", every("sweep", 2.0, self._sweep))
        self._service.add_loop("tick", self._fire)

    # --- loops ---------------------------------------------------------------------------------------

    def _every(
        self, part: str, pause_s: float, step: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """A loop that makes a step, says how it went, and waits; until the service stops."""

        async def loop() -> None:
            while not self._service.stopping.is_set():
                await self._attempt(part, step)
                with trio.move_on_after(pause_s):
                    await self._service.stopping.wait()

        return loop

    async def _attempt(self, part: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
            self._service.health.well(part)
        except (UnavailableError, NotFoundError) as error:
            # Not found: topics that are gone with Kafka's data; the own loop makes them anew.
            self._service.health.unwell(part, str(error))
            self._log.warning("out of reach", part=part, reason=str(error))
            self._stop_if_isolated()
        except OwnershipError as error:
            self._service.health.unwell(part, str(error))
            self._log.warning("lost", part=part, reason=str(error))

    async def _until_reached(self, part: str, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
                self._heard[part] = trio.current_time()
                return
            except UnavailableError as error:
                self._log.warning("waiting", part=part, reason=str(error))
                await trio.sleep(0.5)

    async def _register(self) -> None:
        self._lease = await self._leases.grant(self._lease_ttl_s)
        await self._leases.txn(
            [], [Put(f"shards/{self.shard_id}", self._service.address.encode(), self._lease)]
        )

    async def _keep_alive(self) -> None:
        if not await self._leases.keep_alive(self._lease):
            # Reusing the name after this lost fires in the model: whoever supervises starts us anew.
            raise RuntimeError("the lease is gone: start over as somebody new")
        self._heard["etcd"] = trio.current_time()
        SHARD_HEARTBEAT_AGE.labels(self.shard_id).set(0)

    async def _own(self) -> None:
        await self._check_ground()
        await self._owner.store_watermarks()
        self._heard["postgres"] = trio.current_time()
        taken = await self._owner.acquire(self._lease)
        if taken:
            self._log.info("took", partitions=len(taken), entries=sum(len(self.holdings[p]) for p in taken))
        PARTITIONS_OWNED.labels(self.shard_id).set(len(self.holdings))
        WHEEL_ENTRIES.labels(self.shard_id).set(sum(map(len, self.holdings.values())))

    async def _check_ground(self) -> None:
        """Kafka's data or PostgreSQL may be another one than before: then everything is taken anew, and what
        the claim floor does not vouch for is fired again."""
        generation = await _generation(self._bus, JOB_TOPICS, job_topics(self._topic_partitions))
        identity = await self._store.identity()
        if (generation, identity) != (self._owner.generation, self._owner.identity):
            if self._owner.generation:
                self._log.warning("the ground changed", generation=generation, timeline=identity.timeline)
            self._owner.drop(self._owner.partitions)
            self._owner.generation, self._owner.identity = generation, identity

    async def _measure_clock(self) -> None:
        await self.clock.run_once(self._store)
        CLOCK_OFFSET.set(self.clock.offset_ms / 1000)
        CLOCK_UNCERTAINTY.set(self.clock.uncertainty_ms / 1000)

    async def _take_in(self) -> None:
        while not self._service.stopping.is_set():
            self._poked = trio.Event()
            await self._attempt("intake", self._read_changes)
            with trio.move_on_after(1.0):
                await self._poked.wait()

    async def _read_changes(self) -> None:
        await self._intake.run_once(self.holdings)
        self._heard["postgres"] = trio.current_time()

    async def _sweep(self) -> None:
        mine = self._owner.partitions
        if not mine:
            return
        await self._store.sweep_lost(mine, await self._results_stand())
        await self._store.sweep_held(mine)
        if await self._store.expand_work(mine, EXPANDED_AT_ONCE):
            self.poke()
        await self._store.sweep_completed(mine)
        if self._rounds % 30 == 0:
            await self._store.sweep_overdue(mine)
        if self._rounds % 1800 == 0:
            await self._store.make_months()
        self._rounds += 1

    async def _results_stand(self) -> ResultsStand:
        generation = await _generation(self._results_bus, [RESULTS], result_topics(self._topic_partitions))
        committed = await self._results_bus.committed_offsets(RESULTS_GROUP, [RESULTS])
        ends = await self._results_bus.end_offsets([RESULTS])
        settled = {place.topic_partition: committed.get(place, 0) for place in ends}
        return ResultsStand(generation, settled)

    async def _fire(self) -> None:
        """Tick until the service stops; then hand over what is owned, and end the lease."""
        producer = self._bus.producer(on_acknowledged=lambda ticket: ticker.acknowledged(ticket))
        ticker = Ticker(self.holdings, self._ledger, producer, now_ms=self.clock.reached_ms)
        self._owner.ticker = ticker
        try:
            while not self._service.stopping.is_set():
                ticker.tick(self._intake.horizon_xid)
                await trio.sleep(self._tick_s)
            await self._hand_over(ticker)
        finally:
            await producer.close()

    async def _hand_over(self, ticker: Ticker) -> None:
        """Stop at a tick, wait for its acknowledgement, store (T, X), give the keys back."""
        ticker.tick(self._intake.horizon_xid)
        with trio.move_on_after(10):
            await ticker.all_acknowledged()
            await self._attempt("own", self._store_last)
        await self._attempt("etcd", lambda: self._leases.revoke(self._lease))
        self._log.info("handed over", partitions=len(self.holdings))

    async def _store_last(self) -> None:
        await self._owner.store_watermarks()

    def _stop_if_isolated(self) -> None:
        """Cut off from both for too long: somebody else surely fires by now; stop wasting."""
        if trio.current_time() - max(self._heard.values()) > self._isolation_limit_s and self.holdings:
            self._log.error("isolated", limit_s=self._isolation_limit_s)
            self._owner.drop(self._owner.partitions)


async def _generation(bus: Bus, topics: Sequence[str], specs: Sequence[TopicSpec]) -> str:
    """Kafka's generation; topics that are gone with Kafka's data are made anew."""
    try:
        return await bus.generation(topics)
    except NotFoundError:
        await bus.ensure_topics(specs)
        return await bus.generation(topics)
