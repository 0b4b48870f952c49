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
from typing import Protocol

from shardwheel.job import Changes, JobEntry, WaitingExecution
from shardwheel.shard.holding import Holding, Stand


class Feed(Protocol):
    """What intake asks of the store."""

    def load(self, partitions: Sequence[int]) -> AbstractAsyncContextManager[AsyncIterator[Changes]]: ...

    async def changes(self, partitions: Sequence[int], since: str) -> Changes: ...


class Intake:
    """Fills holdings. Partitions that were loaded together share a snapshot; each is read from its own."""

    def __init__(self, feed: Feed, topic_partitions: int) -> None:
        self._feed = feed
        self._topic_partitions = topic_partitions
        self._snapshots: dict[int, str] = {}
        self._horizons: dict[int, int] = {}

    @property
    def horizon_xid(self) -> int:
        """X of the shard: the smallest of its partitions'. All changes below it are in the wheels."""
        return min(self._horizons.values(), default=0)

    async def load(self, stands: Mapping[int, Stand]) -> dict[int, Holding]:
        """Load partitions whole, each from its stand. They are read on by `run_once` from then on."""
        holdings = {
            partition: Holding(partition, self._topic_partitions, stand.fired_through_ms)
            for partition, stand in stands.items()
        }
        snapshot, horizon_xid = "", 0
        async with self._feed.load(sorted(stands)) as batches:
            async for batch in batches:
                snapshot, horizon_xid = batch.snapshot, batch.horizon_xid
                _apply(batch, holdings, stands)
        for partition in stands:
            self._snapshots[partition], self._horizons[partition] = snapshot, horizon_xid
        return holdings

    async def run_once(self, holdings: Mapping[int, Holding]) -> int:
        """Read what changed and apply it; returns how many changes there were."""
        count = 0
        for snapshot, partitions in self._by_snapshot(holdings).items():
            changes = await self._feed.changes(partitions, snapshot)
            # A partition may have been dropped, or loaded anew, while we waited.
            mine = [p for p in partitions if p in holdings and self._snapshots.get(p) == snapshot]
            stands = {p: Stand(holdings[p].wheel.stand_ms, self._horizons[p]) for p in mine}
            _apply(changes, {p: holdings[p] for p in mine}, stands)
            for partition in mine:
                self._snapshots[partition] = changes.snapshot
                self._horizons[partition] = changes.horizon_xid
            count += len(changes.jobs) + len(changes.waiting)
        return count

    def forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._snapshots.pop(partition, None)
            self._horizons.pop(partition, None)

    def _by_snapshot(self, holdings: Mapping[int, Holding]) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = defaultdict(list)
        for partition in sorted(holdings):
            groups[self._snapshots[partition]].append(partition)
        return groups


def _apply(changes: Changes, holdings: Mapping[int, Holding], stands: Mapping[int, Stand]) -> None:
    jobs: dict[int, list[JobEntry]] = defaultdict(list)
    waiting: dict[int, list[WaitingExecution]] = defaultdict(list)
    for job in changes.jobs:
        jobs[job.partition].append(job)
    for execution in changes.waiting:
        waiting[execution.partition].append(execution)
    for partition, entries in jobs.items():
        if partition in holdings:
            holdings[partition].take_jobs(entries, stands[partition])
    for partition, executions in waiting.items():
        if partition in holdings:
            holdings[partition].take_waiting(executions)
