"""How the commands that steer a cluster reach it: etcd says who owns what, PostgreSQL the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import trio

from shardwheel.api.desk import ClusterFacts
from shardwheel.commands.context import current_settings, require
from shardwheel.commands.edges import open_etcd, open_pool
from shardwheel.coordinator.planning import Move
from shardwheel.coordinator.progress import expected_s, moves_to_balance, progress
from shardwheel.coordinator.steering import look
from shardwheel.errors import ShardwheelError
from shardwheel.ports import Leases
from shardwheel.records import View
from shardwheel.settings import Settings
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore
from shardwheel.store.steering import count_jobs, last_taken_ms

T = TypeVar("T")
LOOK_S = 0.2


class Cluster:
    """etcd; and PostgreSQL for the verbs that count jobs: the others do without."""

    def __init__(self, settings: Settings, leases: Leases, pool: Pool) -> None:
        self._settings = settings
        self.leases = leases
        self._pool = pool

    @property
    def pool(self) -> Pool:
        require(self._settings, "postgres_dsn")
        return self._pool

    @property
    def store(self) -> PostgresStore:
        return PostgresStore(self.pool)

    async def count_jobs(self) -> Mapping[int, int]:
        """How many each partition has."""
        return await self.pool.run(count_jobs)

    async def wait_until(self, done: Callable[[View], bool], what: str, limit_s: float) -> View:
        """Look until it is so. After the time limit say where the cluster stands, and why."""
        with trio.move_on_after(limit_s):
            while True:
                view = await look(self.leases)
                if done(view):
                    return view
                await trio.sleep(LOOK_S)
        found = await self.standing()
        hint = f"; {found['remedy']}" if found["remedy"] else ""
        raise ShardwheelError(f"{what}: not within {limit_s:g} s: {found['state']}, {found['reason']}{hint}")

    async def standing(self) -> dict[str, Any]:
        """What `rebalance status` shows."""
        now_ms = int(await self.store.now_ms())
        facts = ClusterFacts(now_ms, await self.pool.run(last_taken_ms), await self.count_jobs())
        return standing(await look(self.leases), facts)


def with_cluster(data: Path | None, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Connect as the settings say, do the work, let go."""
    settings = current_settings(data)
    require(settings, "etcd_endpoints")

    async def run() -> T:
        async with open_etcd(settings) as leases, open_pool(settings, "shardctl", 2) as pool:
            return await work(Cluster(settings, leases, pool))

    return trio.run(run)


def standing(view: View, facts: ClusterFacts) -> dict[str, Any]:
    """Where a rebalance stands, and in `planned` what one would move."""
    found = progress(view, facts.now_ms, facts.last_taken_ms)
    return {
        "state": found.state,
        "reason": found.reason,
        "remedy": found.remedy,
        "automatic": not view.rebalance_off,
        "leader": None if view.leader is None else view.leader.shard_id,
        "generation": None if view.plan is None else view.plan.generation,
        "planned_because": None if view.plan is None else view.plan.reason,
        "draining": None if view.drain is None else view.drain.shard_id,
        "pins": len(view.pins),
        **weighed(found.moves, facts.jobs),
        "planned": weighed(moves_to_balance(view), facts.jobs),
    }


def weighed(moves: Iterable[Move], jobs: Mapping[int, int]) -> dict[str, Any]:
    """The moves with their jobs, and how long they should take all together."""
    moves = list(moves)
    rows = [
        {"partition": m.partition, "from": m.source or None, "to": m.target, "jobs": jobs.get(m.partition, 0)}
        for m in moves
    ]
    return {
        "partitions": len(rows),
        "jobs": sum(row["jobs"] for row in rows),
        "expected_s": round(expected_s(moves, jobs), 1),
        "moves": rows,
    }
