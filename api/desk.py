"""What all routes work with: the way to PostgreSQL, what is known of the cluster, and the pokes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from shardwheel.api.doors import ShardDoors
from shardwheel.api.gather import Gather
from shardwheel.api.lags import Lags
from shardwheel.api.quotas import Quotas
from shardwheel.api.remembered import Remembered
from shardwheel.api.telling import Telling
from shardwheel.api.turns import Turns
from shardwheel.destinations import STRICT, CallbackRules
from shardwheel.errors import UnavailableError
from shardwheel.records import View
from shardwheel.service import Health
from shardwheel.store.creation import Found, Wish, create_all, read_jobs
from shardwheel.store.executions import read_executions
from shardwheel.store.link import Connection
from shardwheel.store.tenant_limits import Quota
from shardwheel.store.tenant_pool import TenantPool
from shardwheel.tls import PLAIN_DOORS, DoorTls

UNLIMITED = Quota()
P = ParamSpec("P")
T = TypeVar("T")
# A commit costs several times as much; see `gather`.
COMMIT_PAUSE_S = 0.002


class Steered(NamedTuple):
    """The cluster before and after. `moves`: how many partitions are to change their owner, as it stands."""

    before: View
    after: View
    moves: int


class ClusterFacts(NamedTuple):
    """What PostgreSQL knows of a rebalance: its clock, when a partition was taken last, jobs by partition."""

    now_ms: int
    last_taken_ms: int
    jobs: Mapping[int, int]


class Steering(Protocol):
    """What can be asked of a cluster. Each call waits for etcd, so it is made from a thread."""

    def drain(self, shard_id: str) -> Steered: ...
    def undrain(self, shard_id: str) -> Steered: ...
    def rebalance(self) -> Steered: ...
    def move(self, partition: int, shard_id: str) -> Steered: ...
    def switch(self, automatic: bool) -> Steered: ...
    def standing(self, facts: ClusterFacts) -> dict[str, Any]: ...


def unknown_lag(pool: str) -> int | None:
    """Where the process does not know Kafka."""
    return None


class Desk(NamedTuple):
    """`poke` tells the owners of partitions that something changed: a hint, it never waits. `look` gives the
    cluster as it was a moment ago, or None when nobody knows. `is_stopping`: no new work, please.
    `callbacks`: where a job's callback_url may lead."""

    pool: TenantPool
    creations: Gather[Wish, Found]
    readings: Gather[bytes, Found | None]
    executions: Gather[bytes, dict[str, Any] | None]
    remembered: Remembered
    poke: Callable[[Iterable[int]], None]
    look: Callable[[], View | None]
    steering: Steering
    health: Health
    is_stopping: Callable[[], bool]
    doors: ShardDoors
    telling: Telling
    quotas: Quotas
    turns: Turns
    lags: Lags
    callbacks: CallbackRules = STRICT

    async def much(
        self, tenant: str, fn: Callable[Concatenate[Connection, str, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As `pool.run`, for what answers with much: it takes its turn."""
        async with self.turns.one():
            return await self.pool.run(tenant, fn, *args, **kwargs)

    def cluster(self) -> View:
        view = self.look()
        if view is None:
            raise UnavailableError("etcd is out of reach: nobody knows the shards now")
        return view


def open_desk(
    pool: TenantPool,
    *,
    poke: Callable[[Iterable[int]], None],
    look: Callable[[], View | None],
    steering: Steering,
    health: Health,
    is_stopping: Callable[[], bool],
    callbacks: CallbackRules = STRICT,
    usual_quota: Quota = UNLIMITED,
    door_tls: DoorTls = PLAIN_DOORS,
    lag: Callable[[str], int | None] = unknown_lag,
) -> Desk:
    """`lag`: how much of a pool waits in Kafka, if that is known; it may wait for Kafka."""
    creations, readings = Gather(pool, create_all, pause_s=COMMIT_PAUSE_S), Gather(pool, read_jobs)
    executions = Gather(pool, read_executions)
    doors, telling = ShardDoors(door_tls), Telling(pool, look, is_stopping)
    remembered = Remembered(time.monotonic)
    return Desk(
        pool=pool,
        creations=creations,
        readings=readings,
        executions=executions,
        remembered=remembered,
        poke=poke,
        look=look,
        steering=steering,
        health=health,
        is_stopping=is_stopping,
        doors=doors,
        telling=telling,
        quotas=Quotas(pool, usual_quota, time.monotonic),
        turns=Turns(),
        lags=Lags(lag, time.monotonic),
        callbacks=callbacks,
    )
