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
from typing import NamedTuple

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
# After each thousand rows of a load, which take about as long: somebody else fires what is loaded; what we
# fire ourselves comes first.
PAUSE_S = 0.01
# Whoever is to hand over and has not done so by then does not hold up the next load.
TAKEN_WITHIN_S = 2.0


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


class Wants(NamedTuple):
    """What a view asks of the mirror. `mirror`: partitions and who fires them; `claimed`: those are neither
    dropped, for they are promoted, nor loaded from now on, for their owner does; `awaited`: of `mirror`, what
    is to move here; `moving`: whether anything moves in the cluster."""

    mirror: Mapping[int, str]
    claimed: Collection[int] = ()
    awaited: Collection[int] = ()
    moving: bool = False


class Mirror:
    """The shadows of one shard, and of each partition the state it was seen in last.

    A load is work that whatever fires in the same process has to wait for. So one goes on at a time, what is
    to move here goes first, nothing else is loaded while something moves, and what moves is loaded once the
    group before has been taken."""

    def __init__(self, store: Store, intake: Intake, topic_partitions: int) -> None:
        self._store = store
        self._intake = intake
        self._topic_partitions = topic_partitions
        self._wants = Wants({})
        self._ready: set[int] = set()
        self._ready_since = float("-inf")
        self.states: dict[int, PartitionState] = {}
        self.shadows: dict[int, Shadow] = {}
        self.loading: set[int] = set()
        self._loaded = trio.Event()

    def want(self, wants: Wants) -> bool:
        """From now on mirror these; whether something is to be loaded for it now."""
        self._wants = wants
        self.drop([p for p in self.shadows if p not in wants.mirror and p not in wants.claimed])
        self._regroup()
        return bool(self._to_load())

    def groups(self, awaited: Collection[int]) -> list[list[int]]:
        """The shadows of what is to move here, each by its partitions."""
        return [group for group in self._groups() if set(group).issubset(awaited)]

    async def run_once(self) -> bool:
        """Follow what is mirrored, and load some of what is missing; whether anything was."""
        await self._follow()
        # Looked at only now: what was claimed meanwhile is not ours to load.
        together = self._to_load()
        if together:
            await self._load(together)
        return bool(together)

    async def promote(self, taken: Sequence[PartitionState]) -> dict[int, Holding]:
        """Make holdings of the shadows of these partitions, whose epoch was bumped just now. What is left
        out has to be loaded. Nothing may be awaited between this and firing them."""
        states = {state.partition: state for state in taken}
        while self.loading.intersection(states):
            await self._loaded.wait()
        self._drop_unfit(states)
        # The owner knew all changes below its X: so must we, before T moves on under an X like that.
        while behind := self._behind(states):
            await self._intake.run_once(behind)
        self._drop_unfit(states)
        return self._wake({p: state for p, state in states.items() if p in self.shadows})

    def drop(self, partitions: Iterable[int]) -> None:
        gone = take_away(self.shadows, partitions)
        for partition in gone:
            self.states.pop(partition, None)
        self._intake.forget(gone)

    def _wake(self, mine: Mapping[int, PartitionState]) -> dict[int, Holding]:
        shadows = {partition: self.shadows[partition] for partition in mine}
        # Others that share a shadow with these are not ours to fire: they are loaded again.
        self.drop([p for p, shadow in self.shadows.items() if p not in mine and shadow in shadows.values()])
        for shadow in dict.fromkeys(shadows.values()):
            shadow.wake(_lowest(mine[p] for p, one in shadows.items() if one is shadow))
        for partition in mine:
            del self.shadows[partition], self.states[partition]
        return dict(shadows)

    def _drop_unfit(self, states: Mapping[int, PartitionState]) -> None:
        self.drop([p for p, state in states.items() if p in self.shadows and not self._fits(state)])

    def _behind(self, states: Mapping[int, PartitionState]) -> dict[int, Holding]:
        """Shadows whose feed is not as far as their last owner's."""
        return {
            p: self.shadows[p]
            for p, state in states.items()
            if p in self.shadows and self._intake.horizon_of(p) < state.horizon_xid
        }

    def _groups(self) -> list[list[int]]:
        """The partitions of each shadow."""
        groups: dict[Shadow, list[int]] = {}
        for partition, shadow in sorted(self.shadows.items()):
            groups.setdefault(shadow, []).append(partition)
        return list(groups.values())

    def _regroup(self) -> None:
        """A shadow is handed over and promoted as one: what is to move out of one is loaded on its own."""
        for group in self._groups():
            awaited = [partition for partition in group if partition in self._wants.awaited]
            if len(awaited) < len(group):
                self.drop(awaited)

    def _to_load(self) -> list[int]:
        """What is to be loaded next, together."""
        wants = self._wants
        ready = self.shadows.keys() & wants.awaited
        if ready != self._ready:
            self._ready, self._ready_since = ready, trio.current_time()
        if ready and trio.current_time() - self._ready_since < TAKEN_WITHIN_S:
            return []
        missing = [p for p in sorted(wants.mirror) if p not in self.shadows and p not in self.loading]
        first = [p for p in missing if p in wants.awaited]
        if not first and not wants.moving:
            first = missing
        of_one = [p for p in first if wants.mirror[p] == min(wants.mirror[p] for p in first)]
        return of_one[:PARTITIONS_AT_ONCE]

    async def _follow(self) -> None:
        asked = dict(self.shadows)
        states = {state.partition: state for state in await self._store.partitions(sorted(asked))}
        # What was dropped, promoted or loaded while we waited is none of this look's business.
        mine = [p for p, shadow in self.shadows.items() if asked.get(p) is shadow]
        self.drop([p for p in mine if p not in states])
        self._drop_unfit({p: states[p] for p in mine if p in states})
        self.states.update({p: states[p] for p in mine if p in self.shadows})
        for group in self._groups():
            if group[0] in mine:
                self.shadows[group[0]].follow(_lowest(states[p] for p in group))

    async def _load(self, partitions: Sequence[int]) -> None:
        self.loading, self._loaded = set(partitions), trio.Event()
        try:
            states = await self._store.partitions(partitions)
            stands = {state.partition: Stand(state.fired_through_ms, state.horizon_xid) for state in states}
            if states:
                shadow = Shadow(self._topic_partitions, _lowest(states).fired_through_ms)
                await self._intake.load(stands, shadow, PAUSE_S)
                shadow.follow(_lowest(states))
                self.shadows.update(dict.fromkeys(stands, shadow))
                self.states.update({state.partition: state for state in states})
        finally:
            self.loading = set()
            self._loaded.set()

    def _fits(self, state: PartitionState) -> bool:
        """Whether the shadow stands on the same ground, at or before the owner's T."""
        shadow = self.shadows[state.partition]
        same = _ground(self.states[state.partition]) == _ground(state)
        return same and shadow.wheel.stand_ms <= state.fired_through_ms


def _ground(state: PartitionState) -> tuple[object, ...]:
    return (state.kafka_generation, state.identity)


def _lowest(states: Iterable[PartitionState]) -> Stand:
    stands = [(state.fired_through_ms, state.horizon_xid) for state in states]
    return Stand(min(t for t, _ in stands), min(x for _, x in stands))
