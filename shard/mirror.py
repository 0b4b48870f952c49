"""The mirror: partitions that another shard fires, held ready here, so that taking over is one advance.

A shadow is a holding that fires nothing. Its wheel stands at the owner's stored T, read each second, and its
entries come from this shard's own feed. What the stored (T, X) vouches for has been fired by the owner, so it
is passed over; all else stays, however long it has been due:

    due ≤ T, schedule_xid < X    a job: it goes on to its first time after T
    due ≤ T, schedule_xid ≥ X    a job whose schedule the owner may not have seen yet: it stands at its first
                                 time from `effective_from` on
    due ≤ T, changed_xid < X     a waiting execution: published, dropped here
    due ≤ T, changed_xid ≥ X     a waiting execution that the owner may not have seen: kept

Partitions that are loaded together share a shadow, which stands at the smallest of their (T, X): standing
lower means to fire more of it again, which is always safe. Before it is fired it is loaded anew if Kafka's
generation or PostgreSQL's timeline is not the one it was loaded under, or T has gone back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import trio
from numpy.typing import NDArray

from shardwheel.job import JobEntry
from shardwheel.missed import first_due_after
from shardwheel.ports import PartitionState, Store
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding, take_away
from shardwheel.shard.intake import Intake
from shardwheel.shard.table import Rows
from shardwheel.shard.terms import NOBODY
from shardwheel.times import END_MS
from shardwheel.timing import Timing

# Loaded, said to be ready and handed over together: small enough that a takeover which finds a load under way
# does not wait long for it.
PARTITIONS_AT_ONCE = 16


class Shadow(Holding):
    """A holding that follows its owner; `wake` makes an ordinary one of it."""

    def __init__(self, topic_partitions: int, stand_ms: int) -> None:
        super().__init__(topic_partitions, stand_ms)
        self._stand: Stand | None = None
        self._young: dict[bytes, int] = {}

    def take_jobs(self, entries: Sequence[JobEntry], stands: Mapping[int, Stand]) -> None:
        """While it follows, the owner's stand counts, not that of this shard's own feed."""
        if self._stand is not None:
            stands = dict.fromkeys(stands, self._stand)
        for entry in entries:
            if entry.schedule_xid >= stands[entry.partition].horizon_xid:
                self._young[entry.job_id] = max(entry.schedule_xid, self._young.get(entry.job_id, 0))
        super().take_jobs(entries, stands)

    def follow(self, stand: Stand) -> None:
        """Stand where the owner stands: pass over what it has surely fired."""
        self._stand = stand
        self._young = {job_id: xid for job_id, xid in self._young.items() if xid >= stand.horizon_xid}
        rows = np.array(self.wheel.advance(stand.fired_through_ms), np.int64)
        if len(rows):
            is_kept = self._is_kept(rows, stand)
            self.wheel.put_many(rows[is_kept], self.wheel.dues_of(rows[is_kept]))
            self._pass_jobs(rows[~is_kept], stand.fired_through_ms)

    def wake(self, stand: Stand) -> None:
        """From now on it is fired, from this stand on."""
        self.follow(stand)
        self._stand = None
        self._young.clear()

    def _is_kept(self, rows: Rows, stand: Stand) -> NDArray[np.bool_]:
        """Which of these the owner may not have seen yet. Waiting executions that it has are let go."""
        is_kept = np.zeros(len(rows), np.bool_)
        if self._young:
            is_kept[:] = [job_id in self._young for job_id in self.wheel.register.ids_of(rows).tolist()]
        waits = np.flatnonzero(self._table.records["terms"][rows] == NOBODY).tolist()
        for at in waits:
            is_kept[at] = self._waiting[int(rows[at])].changed_xid >= stand.horizon_xid
        return is_kept

    def _pass_jobs(self, rows: Rows, through_ms: int) -> None:
        jobs = self._table.records.take(rows)
        is_job = jobs["terms"] != NOBODY
        for row in rows[~is_job].tolist():
            del self._waiting[row]
        self._release(rows[~is_job])
        rows, jobs = rows[is_job], jobs[is_job]
        job_ids = self.wheel.register.ids_of(rows)
        after_ms = np.full(len(rows), through_ms)
        for at in np.flatnonzero(self._table.terms.jitters_ms(jobs["terms"])).tolist():
            after_ms[at] = self._first_jittered_time(job_ids[at].item(), jobs[at], through_ms) - 1
        self._go_on(rows, job_ids, jobs, after_ms)

    def _first_jittered_time(self, job_id: bytes, job: np.void, through_ms: int) -> int:
        schedule, _, jitter_ms, _ = self._table.terms[int(job["terms"])]
        timing = Timing(schedule, int(job["anchor_ms"]), None, int(job["last_ms"]))
        return first_due_after(timing, job_id, jitter_ms, through_ms, int(job["scheduled_ms"]), END_MS)


class Mirror:
    """The shadows of one shard. One step at a time, but for loads: whoever promotes waits for a load of these
    partitions alone, or a move of many would pause each of them for the load of the next."""

    def __init__(self, store: Store, intake: Intake, topic_partitions: int) -> None:
        self._store = store
        self._intake = intake
        self._topic_partitions = topic_partitions
        self._lock = trio.Lock()
        self._wanted: Mapping[int, str] = {}
        self._claimed: Collection[int] = ()
        self._grounds: dict[int, tuple[object, ...]] = {}
        self.shadows: dict[int, Shadow] = {}
        self.loading: set[int] = set()
        self._loaded = trio.Event()

    def want(self, wanted: Mapping[int, str], claimed: Collection[int]) -> None:
        """Mirror these (partition → who fires it). Those that are being claimed are neither dropped, for
        they are promoted, nor loaded from now on, for their owner does."""
        self._wanted = wanted
        self._claimed = claimed

    async def run_once(self) -> bool:
        """Follow what is mirrored, drop what is no longer wanted, and load some of what is missing. True
        while something still is."""
        async with self._lock:
            self.drop([p for p in self.shadows if p not in self._wanted and p not in self._claimed])
            await self._follow()
            # Looked at only now: what was claimed meanwhile is not ours to load.
            wanted = self._wanted
            missing = [p for p in sorted(wanted, key=lambda p: (wanted[p], p)) if p not in self.shadows]
            together = [p for p in missing[:PARTITIONS_AT_ONCE] if wanted[p] == wanted[missing[0]]]
            self.loading, self._loaded = set(together), trio.Event()
        if together:
            await self._load(together)
        return len(missing) > len(together)

    async def promote(self, taken: Sequence[PartitionState]) -> dict[int, Holding]:
        """Make holdings of the shadows of these partitions, whose epoch was bumped just now. What is left
        out has to be loaded. Nothing may be awaited between this and firing them."""
        states = {state.partition: state for state in taken}
        while self.loading.intersection(states):
            await self._loaded.wait()
        async with self._lock:
            self.drop([p for p, state in states.items() if p in self.shadows and not self._fits(state)])
            mine = {p: state for p, state in states.items() if p in self.shadows}
            # The owner knew all changes below its X: so must we, before T moves on under an X like that.
            while any(self._intake.horizon_of(p) < state.horizon_xid for p, state in mine.items()):
                await self._intake.run_once(self.shadows)
            return self._wake(mine)

    def drop(self, partitions: Iterable[int]) -> None:
        gone = take_away(self.shadows, partitions)
        for partition in gone:
            self._grounds.pop(partition, None)
        self._intake.forget(gone)

    def _wake(self, mine: Mapping[int, PartitionState]) -> dict[int, Holding]:
        shadows = {partition: self.shadows[partition] for partition in mine}
        # Others that share a shadow with these are not ours to fire: they are loaded again.
        self.drop([p for p, shadow in self.shadows.items() if p not in mine and shadow in shadows.values()])
        for shadow in dict.fromkeys(shadows.values()):
            shadow.wake(_lowest(mine[p] for p, one in shadows.items() if one is shadow))
        for partition in mine:
            del self.shadows[partition], self._grounds[partition]
        return dict(shadows)

    async def _follow(self) -> None:
        states = {state.partition: state for state in await self._store.partitions(sorted(self.shadows))}
        self.drop([p for p in self.shadows if p not in states or not self._fits(states[p])])
        for shadow in dict.fromkeys(self.shadows.values()):
            shadow.follow(_lowest(states[p] for p, one in self.shadows.items() if one is shadow))

    async def _load(self, partitions: Sequence[int]) -> None:
        try:
            states = await self._store.partitions(partitions)
            stands = {state.partition: Stand(state.fired_through_ms, state.horizon_xid) for state in states}
            if states:
                shadow = Shadow(self._topic_partitions, _lowest(states).fired_through_ms)
                await self._intake.load(stands, shadow)
                shadow.follow(_lowest(states))
                self.shadows.update(dict.fromkeys(stands, shadow))
                self._grounds.update({state.partition: _ground(state) for state in states})
        finally:
            self.loading = set()
            self._loaded.set()

    def _fits(self, state: PartitionState) -> bool:
        """Whether the shadow stands on the same ground, at or before the owner's T."""
        shadow = self.shadows[state.partition]
        same = self._grounds[state.partition] == _ground(state)
        return same and shadow.wheel.stand_ms <= state.fired_through_ms


def _ground(state: PartitionState) -> tuple[object, ...]:
    return (state.kafka_generation, state.identity)


def _lowest(states: Iterable[PartitionState]) -> Stand:
    stands = [(state.fired_through_ms, state.horizon_xid) for state in states]
    return Stand(min(t for t, _ in stands), min(x for _, x in stands))
