"""Intake: from the tables into the wheels. One load of the partitions, then what changed, again and again.

Order is everything here: changes are read under a snapshot, applied to the wheels, and only then is the
horizon X moved that the next tick stores with its T. Nothing is awaited between applying and moving.

Reading goes on every second, or at once when poked: a poke is a hint that may be lost, so nothing
depends on it. The read every second *is* the reconciliation scan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

import trio

from shardwheel.job import Changes, JobEntry, WaitingExecution
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding

E = TypeVar("E", JobEntry, WaitingExecution)


class Feed(Protocol):
    """What intake asks of the store."""

    def load(self, partitions: Sequence[int]) -> AbstractAsyncContextManager[AsyncIterator[Changes]]: ...

    async def changes(self, partitions: Sequence[int], since: str) -> Changes: ...


class Intake:
    """Fills holdings. Each partition's changes are read from its own snapshot on, or from an older one."""

    def __init__(self, feed: Feed, topic_partitions: int) -> None:
        self._feed = feed
        self._topic_partitions = topic_partitions
        self._snapshots: dict[int, str] = {}
        self._horizons: dict[int, int] = {}
        # Of the latest read of changes; none yet: "".
        self.snapshot = ""

    @property
    def horizon_xid(self) -> int:
        """X of the shard: the smallest of its partitions'. All changes below it are in the wheels."""
        return min(self._horizons.values(), default=0)

    def horizon_of(self, partition: int) -> int:
        """All changes of this partition below it are in its wheel."""
        return self._horizons[partition]

    async def load(
        self, stands: Mapping[int, Stand], into: Holding | None = None, pause_s: float = 0.0
    ) -> dict[int, Holding]:
        """Load partitions whole into one holding, each from its stand. `run_once` reads them on from then on.
        A holding that is given must stand at or before all of them, and be empty. `pause_s`: for a load that
        nobody waits for, a rest after each batch, for whatever fires beside it."""
        if into is None:
            stand_ms = min((stand.fired_through_ms for stand in stands.values()), default=0)
            into = Holding(self._topic_partitions, stand_ms)
        snapshot, horizon_xid = "", 0
        async with self._feed.load(sorted(stands)) as batches:
            async for batch in batches:
                snapshot, horizon_xid = batch.snapshot, batch.horizon_xid
                # All of it is these partitions': nothing else was asked for.
                if batch.jobs:
                    into.take_jobs(batch.jobs, stands)
                if batch.waiting:
                    into.take_waiting(batch.waiting)
                await trio.sleep(pause_s)
        for partition in stands:
            self._snapshots[partition], self._horizons[partition] = snapshot, horizon_xid
        return dict.fromkeys(stands, into)

    async def run_once(self, *held: Mapping[int, Holding]) -> int:
        """Read what changed of all that is held and apply it; returns how many changes there were."""
        before = {partition: self._snapshots[partition] for partition in sorted(_all(held))}
        if not before:
            return 0
        # One read for all, since the oldest of their snapshots: at worst some see a change again. (Since a
        # newer one than its own, a partition would miss changes.)
        oldest = min(dict.fromkeys(before.values()), key=_age)
        changes = await self._feed.changes(list(before), oldest)
        self.snapshot = changes.snapshot
        # A partition may have been dropped, or loaded anew, while we waited.
        left = _all(held)
        mine = {p: left[p] for p in before if p in left and self._snapshots.get(p) == before[p]}
        self._apply(changes, mine)
        for partition in mine:
            self._snapshots[partition] = changes.snapshot
            self._horizons[partition] = changes.horizon_xid
        return len(changes.jobs) + len(changes.waiting)

    def _apply(self, changes: Changes, mine: Mapping[int, Holding]) -> None:
        """Each holding takes what is its partitions'. A poke mostly brings one job for 256 partitions: so
        what came is gone through, not what is held."""
        for holding, jobs in _by_holding(changes.jobs, mine):
            changed = {job.partition for job in jobs}
            holding.take_jobs(jobs, {p: Stand(holding.wheel.stand_ms, self._horizons[p]) for p in changed})
        for holding, waiting in _by_holding(changes.waiting, mine):
            holding.take_waiting(waiting)

    def forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._snapshots.pop(partition, None)
            self._horizons.pop(partition, None)


def _age(snapshot: str) -> tuple[int, int, int]:
    """Sorts snapshots of one server by when they were taken: as time goes on, a snapshot's xmin and xmax only
    grow, and while they stand still, only fewer transactions run."""
    xmin, xmax, running = snapshot.split(":")
    return int(xmin), int(xmax), -len(running.split(",") if running else "")


def _all(held: Iterable[Mapping[int, Holding]]) -> dict[int, Holding]:
    return {partition: holding for one in held for partition, holding in one.items()}


def _by_holding(found: Iterable[E], mine: Mapping[int, Holding]) -> Iterable[tuple[Holding, list[E]]]:
    """What is of these partitions, by who holds them."""
    by_holding: defaultdict[Holding, list[E]] = defaultdict(list)
    for one in found:
        holding = mine.get(one.partition)
        if holding is not None:
            by_holding[holding].append(one)
    return by_holding.items()
