"""A scheduler shard: the loops around owner, mirror, intake, ticker and sweep. Here, and only here, it waits.

    tick     every few ms, or     clock → wheels → Kafka; awaits nothing else
             something came in
    intake   1 s, or poked        what changed → wheels and shadows
    store    1 s                  (T, X) → PostgreSQL, fenced
    follow   every view (1 s, or  what the plan asks for: claim, hand over, drop
             a watch's event)
    state    every view           what we say of ourselves: active, draining, leaving
    clear    1 s                  rows of what was let go
    ground   1 s                  is it still the same Kafka data and PostgreSQL?
    mirror   1 s                  shadows of what this shard may have to take over
    lease    TTL / 4              a sign of life; lost → the process ends and starts over as somebody new
    clock    3 s                  the database's clock
    figures  1 s                  metrics
    sweep    2 s                  what events may have missed
    leave    at SIGTERM           let the others take over, then end the lease

Each loop says in `/healthz` whether it is well. A server that is away makes its loop wait and try again; the
others go on. Cut off from etcd and PostgreSQL both for `isolation_limit_s`, the shard stops firing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from shardwheel.clock import DatabaseClock
from shardwheel.errors import NotFoundError, OwnershipError, UnavailableError
from shardwheel.ids import text_of
from shardwheel.logs import get_logger
from shardwheel.metrics import (
    CLOCK_OFFSET,
    CLOCK_UNCERTAINTY,
    HORIZON_AGE,
    PARTITIONS_OWNED,
    SHARD_HEARTBEAT_AGE,
    WHEEL_ENTRIES,
)
from shardwheel.ports import Bus, Doors, Leases
from shardwheel.records import Member
from shardwheel.service import Service
from shardwheel.shard.following import Following
from shardwheel.shard.ground import read_ground
from shardwheel.shard.holding import Holding
from shardwheel.shard.horizon import HorizonAge
from shardwheel.shard.intake import Intake
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.membership import LeaseGoneError, Membership
from shardwheel.shard.mirror import Mirror
from shardwheel.shard.owner import Owner, OwnerStore
from shardwheel.shard.suspicion import Suspicion
from shardwheel.shard.sweep import Sweep, SweepStore
from shardwheel.shard.ticker import Ticker
from shardwheel.shard.views import Views

TICK_S = 0.004


class ShardStore(OwnerStore, SweepStore, Protocol):
    """What a shard asks of the store."""


class Shard:
    """One shard's parts, and the loops that drive them on a `Service`."""

    def __init__(
        self,
        member: Member,
        service: Service,
        store: ShardStore,
        bus: Bus,
        results_bus: Bus,
        leases: Leases,
        views: Views,
        doors: Doors | None = None,
        *,
        monotonic: Callable[[], float],
        topic_partitions: int,
        lease_ttl_s: int = 3,
        isolation_limit_s: float = 60.0,
        leave_limit_s: float = 20.0,
        tick_s: float = TICK_S,
    ) -> None:
        self.shard_id = member.shard_id
        self._service = service
        self._store = store
        self._bus = bus
        self._views = views
        self._lease_ttl_s = lease_ttl_s
        self._isolation_limit_s = isolation_limit_s
        self._leave_limit_s = leave_limit_s
        self._tick_s = tick_s
        self._poked = trio.Event()
        self._came_in = trio.Event()
        self._heard = {"etcd": trio.current_time(), "postgres": trio.current_time()}
        self._ending = trio.Event()
        self.clock = DatabaseClock(monotonic)
        self.holdings: dict[int, Holding] = {}
        self._membership = Membership(leases, member, lease_ttl_s)
        self._ledger = Ledger()
        self._intake = Intake(store, topic_partitions)
        self._mirror = Mirror(store, self._intake, topic_partitions)
        self._owner = Owner(
            self.shard_id,
            store,
            leases,
            self._intake,
            self._ledger,
            self.holdings,
            self._mirror,
            reached=self.clock.reach,
        )
        self._suspicion = Suspicion(self.shard_id, doors, views)
        self._following = Following(
            self._membership,
            self._owner,
            self._mirror,
            views,
            self._suspicion,
            read_ground=lambda: read_ground(store, bus, topic_partitions),
            poke=self.poke,
        )
        self._horizon_age = HorizonAge()
        self._sweep = Sweep(store, results_bus, topic_partitions, self.poke)
        self._log = get_logger(shard=self.shard_id)

    @property
    def lease(self) -> int:
        return self._membership.lease

    def poke(self) -> None:
        """Something of ours changed: read at once. A hint, no more."""
        self._poked.set()

    async def join(self) -> None:
        """Become a member, with a lease of one's own, and measure the clock. Waits for the servers."""
        await self._until_reached("etcd", self._membership.register)
        self._owner.lease = self.lease
        await self._until_reached("postgres", lambda: self.clock.run_once(self._store))

    def add_to_service(self) -> None:
        """Every loop runs until the shard has left; the last one ends the lease."""
        every = self._every
        self._service.add_loop("lease", every("etcd", self._lease_ttl_s / 4, self._keep_alive))
        self._service.add_loop("follow", self._each_view("follow", self._following.run_once))
        self._service.add_loop("state", self._each_view("state", self._following.say_state))
        self._service.add_loop("clear", every("clear", 1.0, self._following.clear_away))
        self._service.add_loop("ground", every("ground", 1.0, self._following.look_at_ground))
        self._service.add_loop("mirror", self._follow_owners)
        self._service.add_loop("doors", lambda: self._until_ending(self._suspicion.run))
        self._service.add_loop("figures", every("figures", 1.0, self._tell_figures))
        self._service.add_loop("store", every("store", 1.0, self._store_watermarks))
        self._service.add_loop("clock", every("clock", 3.0, self._measure_clock))
        self._service.add_loop("intake", self._take_in)
        self._service.add_loop("sweep", every("sweep", 2.0, self._sweep_mine))
        self._service.add_loop("tick", self._fire)
        self._service.add_loop("leave", self._leave)

    def status(self) -> dict[str, Any]:
        """What `/status` shows: each partition with its entries, how far it is, and why it is here."""
        found: dict[int, dict[str, Any]] = {}
        for partition in sorted(self._mirror.loading):
            found[partition] = {"entries": 0, "fired_through_ms": None, "role": "loading"}
        for partition, shadow in sorted(self._mirror.shadows.items()):
            through_ms, entries = shadow.wheel.stand_ms, shadow.count(partition)
            found[partition] = {"entries": entries, "fired_through_ms": through_ms, "role": "standby"}
        for partition, holding in sorted(self.holdings.items()):
            reached_ms, entries = self._ledger.reached_ms(partition), holding.count(partition)
            found[partition] = {"entries": entries, "fired_through_ms": reached_ms, "role": "owner"}
        return {"shard_id": self.shard_id, "state": self._membership.member.state, "partitions": found}

    def entries(self) -> int:
        """How many entries this shard fires. Next to no work, so that one may ask again and again."""
        return sum(map(len, set(self.holdings.values())))

    # --- loops ---------------------------------------------------------------------------------------

    def _each_view(self, part: str, step: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """A loop that makes a step at every view; until the shard has left."""

        async def look() -> None:
            number = 0
            while True:
                number = await self._views.newer(number)
                await self._attempt(part, step)

        return lambda: self._until_ending(look)

    async def _follow_owners(self) -> None:
        """Mirror what is wanted: each second, and at once while something is still to be loaded."""
        while not self._ending.is_set():
            self._following.wants_changed = trio.Event()
            await self._attempt("mirror", self._following.mirror_some)
            with trio.move_on_after(1.0):
                await self._following.wants_changed.wait()

    def _every(
        self, part: str, pause_s: float, step: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """A loop that makes a step, says how it went, and waits; until the shard has left."""

        async def loop() -> None:
            while not self._ending.is_set():
                await self._attempt(part, step)
                with trio.move_on_after(pause_s):
                    await self._ending.wait()

        return loop

    async def _until_ending(self, step: Callable[[], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(step)
            await self._ending.wait()
            nursery.cancel_scope.cancel()

    async def _attempt(self, part: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
            self._service.health.well(part)
        except (UnavailableError, NotFoundError) as error:
            # Not found: topics that are gone with Kafka's data; the next look at the ground makes them anew.
            self._service.health.unwell(part, str(error))
            self._log.warning("out of reach", part=part, reason=str(error))
            self._stop_if_isolated()
        except OwnershipError as error:
            self._service.health.unwell(part, str(error))
            self._log.warning("lost", part=part, reason=str(error))
            self._views.hint()

    async def _until_reached(self, part: str, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
                self._heard[part] = trio.current_time()
                return
            except UnavailableError as error:
                self._log.warning("waiting", part=part, reason=str(error))
                await trio.sleep(0.5)

    async def _keep_alive(self) -> None:
        try:
            await self._membership.keep_alive()
        except LeaseGoneError as error:
            # Reusing the name after this lost fires in the model: whoever supervises starts us anew.
            self._log.error("lease gone", reason=str(error), partitions=len(self.holdings))
            raise
        self._heard["etcd"] = trio.current_time()

    async def _tell_figures(self) -> None:
        """Waits for nobody, so that what stands still shows as that."""
        SHARD_HEARTBEAT_AGE.labels(self.shard_id).set(trio.current_time() - self._heard["etcd"])
        PARTITIONS_OWNED.labels(self.shard_id).set(len(self.holdings))
        WHEEL_ENTRIES.labels(self.shard_id).set(self.entries())

    async def _store_watermarks(self) -> None:
        await self._owner.store_watermarks()
        self._heard["postgres"] = trio.current_time()
        self._tell_unreadable()

    def _tell_unreadable(self) -> None:
        self._service.health.well("schedules")
        for job_id, (_, reason) in self._owner.unreadable.items():
            remedy = "it does not fire; update tzdata here, or edit or pause the job"
            self._service.health.unwell("schedules", f"job {text_of(job_id)}: {reason}: {remedy}")
        self._service.health.well("waiting")
        for execution_id, (_, reason) in self._owner.impossible.items():
            # A remark, since the shard does all that it can, and is not told when the row is cancelled.
            remark = f"execution {text_of(execution_id)}: {reason}: it can't fire; cancel it"
            self._service.health.well("waiting", remark)

    async def _measure_clock(self) -> None:
        await self.clock.run_once(self._store)
        # To the wall clock, which is read for this figure alone: nothing here goes by it.
        CLOCK_OFFSET.set(self.clock.now_ms() / 1000 - time.time())
        CLOCK_UNCERTAINTY.set(self.clock.uncertainty_ms / 1000)

    async def _take_in(self) -> None:
        while not self._ending.is_set():
            self._poked = trio.Event()
            await self._attempt("intake", self._read_changes)
            with trio.move_on_after(1.0):
                await self._poked.wait()

    async def _read_changes(self) -> None:
        if await self._intake.run_once(self._mirror.shadows, self.holdings):
            self._came_in.set()
        if self._intake.snapshot:
            HORIZON_AGE.set(self._horizon_age.note(self._intake.snapshot, trio.current_time()))
        self._heard["postgres"] = trio.current_time()

    async def _sweep_mine(self) -> None:
        await self._sweep.run_once(self._owner.partitions)

    # --- firing, and the end -------------------------------------------------------------------------

    async def _fire(self) -> None:
        """Tick until the shard has left; what it then still owns is stored, and its lease ended."""
        producer = self._bus.producer(on_acknowledged=lambda ticket: ticker.acknowledged(ticket))
        ticker = Ticker(self.holdings, self._ledger, producer, now_ms=self.clock.reached_ms)
        self._owner.ticker = ticker
        try:
            while not self._ending.is_set():
                ticker.tick(self._intake.horizon_xid)
                await self._until_next_tick()
            await self._end(ticker)
        finally:
            await producer.close()

    async def _until_next_tick(self) -> None:
        """At once if something came in: what waits is mostly due already."""
        self._came_in = trio.Event()
        with trio.move_on_after(self._tick_s):
            await self._came_in.wait()

    async def _leave(self) -> None:
        """At SIGTERM: let the others load what is ours and take it over, as long as that may last."""
        await self._service.stopping.wait()
        self._membership.leaving = True
        self._views.hint()
        with trio.move_on_after(self._leave_limit_s):
            number = 0
            while (self.holdings or self._owner.handing_over) and not self._following.is_alone:
                number = await self._views.newer(number)
        self._ending.set()
        self._poked.set()
        self._following.wants_changed.set()

    async def _end(self, ticker: Ticker) -> None:
        """Stop at a tick, wait for its acknowledgement, store (T, X), give the keys back."""
        ticker.tick(self._intake.horizon_xid)
        with trio.move_on_after(5):
            await ticker.all_acknowledged()
            await self._attempt("store", self._store_watermarks)
        await self._attempt("etcd", self._membership.revoke)
        self._views.end()
        self._log.info("left", partitions=len(self.holdings))

    def _stop_if_isolated(self) -> None:
        """Cut off from both for too long: somebody else surely fires by now; stop wasting."""
        if trio.current_time() - max(self._heard.values()) > self._isolation_limit_s and self.holdings:
            self._log.error("isolated", limit_s=self._isolation_limit_s)
            self._owner.drop(self._owner.partitions)
