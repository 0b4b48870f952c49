"""Owning partitions: a key in etcd says who, an epoch in PostgreSQL says who may store a watermark.

    take        read the epochs → write owners/<p>, comparing what the view said → bump the epochs seen
                → wake the shadow, or load → fire
    hand over   stop at a tick → wait for its acknowledgement → store (T, X) → delete owners/<p>

What is held as a shadow was seen with its epoch when it was followed last: that one does, and a take begins
with the key. An epoch that has grown since is refused, and the next look reads it anew.

In these orders, so that a shard which was slow between two steps, or whose answer was lost, is refused at the
next one, and the next look at the keys tells how to go on. Everything owned is fired on while etcd or
PostgreSQL is away; only taking waits for them. A partition that is refused (its watermark, its epoch) is
dropped at once and taken again only through the same door.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import trio

from shardwheel.errors import NotFoundError, OwnershipError
from shardwheel.ports import Compare, Delete, Leases, PartitionState, Put, Store, TxnResult
from shardwheel.records import PLAN, View, owner_key, ready_key
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.ground import Ground
from shardwheel.shard.holding import Holding, take_away
from shardwheel.shard.intake import Feed, Intake
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.mirror import Mirror
from shardwheel.shard.ticker import Ticker

# At most two operations a key: etcd takes 128 in a transaction.
KEYS_AT_ONCE = 64
# What is not acknowledged by then is fired again by the next owner.
ACKNOWLEDGED_WITHIN_S = 2.0


class OwnerStore(Store, Feed, Protocol):
    """What owning asks of the store."""


class Owner:
    """The partitions of one shard. `revision`: etcd's, at its latest transaction; an older view does not show
    what it did. `ground`: what it stands on; before that is known nothing can be taken."""

    def __init__(
        self,
        shard_id: str,
        store: OwnerStore,
        leases: Leases,
        intake: Intake,
        ledger: Ledger,
        holdings: dict[int, Holding],
        mirror: Mirror,
        *,
        reached: Callable[[int], None],
    ) -> None:
        self._shard_id = shard_id
        self._store = store
        self._leases = leases
        self._intake = intake
        self._ledger = ledger
        self._holdings = holdings
        self._mirror = mirror
        self._reached = reached
        self.handing_over: set[int] = set()
        self.lease = 0
        self.ticker: Ticker | None = None
        self.revision = 0
        self.ground: Ground | None = None

    @property
    def partitions(self) -> list[int]:
        return sorted(self._holdings)

    @property
    def holdings(self) -> set[Holding]:
        return set(self._holdings.values())

    @property
    def unreadable(self) -> dict[bytes, tuple[int, str]]:
        """Jobs that are left out since their schedule can't be read here: partition and reason."""
        found: dict[bytes, tuple[int, str]] = {}
        for holding in self.holdings:
            found |= holding.unreadable
        return found

    @property
    def impossible(self) -> dict[bytes, tuple[int, str]]:
        """Waiting executions that are left out since there is no such due time: partition and reason."""
        found: dict[bytes, tuple[int, str]] = {}
        for holding in self.holdings:
            found |= holding.impossible
        return found

    def _unsettled(self) -> set[int]:
        """Partitions of which T may not be stored: a job of theirs does not fire its times here."""
        return {partition for partition, _ in self.unreadable.values()}

    # --- taking --------------------------------------------------------------------------------------

    async def take(self, claim: Mapping[int, int], view: View) -> list[int]:
        """Take these partitions (each with the mod revision that its key had in the view); those taken."""
        ground = self.ground
        assert ground is not None
        # A key's writer must have seen the epoch before: who wrote it later has then bumped it, and we stop.
        states = await self._seen(claim, view)
        mine: list[PartitionState] = []
        for batch in _batches(sorted(states)):
            if await self._write_keys(batch, claim, view):
                mine += [states[partition] for partition in batch]
        taken = await self._bump(mine, ground)
        self._enter(taken, await self._mirror.promote(taken), ground)
        rest = [state for state in taken if state.partition not in self._holdings]
        if rest:
            stands = {s.partition: Stand(s.fired_through_ms, s.horizon_xid) for s in rest}
            self._enter(rest, await self._intake.load(stands), ground)
        return sorted(state.partition for state in taken)

    async def _seen(self, claim: Mapping[int, int], view: View) -> dict[int, PartitionState]:
        """The partitions with their epochs, as the mirror saw them last. Those whose key is ours already are
        read now: their epoch was refused, or an answer was lost."""
        mine = view.owned_by(self._shard_id)
        seen = {p: state for p, state in self._mirror.states.items() if p in claim and p not in mine}
        missing = sorted(claim.keys() - seen.keys())
        read = await self._store.partitions(missing) if missing else []
        return seen | {state.partition: state for state in read}

    async def _write_keys(self, batch: Sequence[int], claim: Mapping[int, int], view: View) -> bool:
        """Write the keys that are not ours; whether all of them are now."""
        mine = view.owned_by(self._shard_id)
        ready = [p for p in batch if p in view.ready and view.ready[p].shard_id == self._shard_id]
        compare = [Compare(owner_key(p), claim[p]) for p in batch] + [Compare(PLAN, view.plan_revision)]
        puts = [Put(owner_key(p), self._shard_id.encode(), self.lease) for p in batch if p not in mine]
        answer = await self._txn(compare, [*puts, *(Delete(ready_key(p)) for p in ready)])
        return answer.succeeded

    async def _bump(self, states: Sequence[PartitionState], ground: Ground) -> list[PartitionState]:
        """Bump the epochs. Where Kafka's data or PostgreSQL is not the one that T and X were stored under,
        fires or claims may be gone: those go on from the claim floor."""
        present = {state.partition: state.epoch for state in states if self._is_present(state, ground)}
        other = {state.partition: state.epoch for state in states if state.partition not in present}
        taken: list[PartitionState] = []
        if present:
            taken += await self._store.take_partitions(present, self._shard_id)
        if other:
            taken += await self._store.reset_to_floor(
                other, self._shard_id, kafka_generation=ground.generation, identity=ground.identity
            )
        return taken

    def _is_present(self, state: PartitionState, ground: Ground) -> bool:
        return Ground(state.kafka_generation, state.identity) == ground

    def _enter(
        self, taken: Sequence[PartitionState], holdings: Mapping[int, Holding], ground: Ground
    ) -> None:
        if ground != self.ground:
            # It changed while we waited: what was taken on the old one is taken again, on the new one.
            self._intake.forget(holdings)
            return
        for state in taken:
            if state.partition in holdings:
                self._ledger.enter(state.partition, state.epoch)
                # Its last owner's clock may be ahead of ours; the database's has reached this, though.
                self._reached(state.fired_through_ms)
        self._holdings.update(holdings)

    async def say_ready(self, partitions: Sequence[int], view: View) -> None:
        """Tell their owners that we hold these passively."""
        for batch in _batches(partitions):
            known = [
                Compare(ready_key(p), view.ready[p].mod_revision if p in view.ready else 0) for p in batch
            ]
            puts = [Put(ready_key(p), self._shard_id.encode(), self.lease) for p in batch]
            await self._txn([*known, Compare(PLAN, view.plan_revision)], puts)

    async def take_back_ready(self, partitions: Sequence[int], view: View) -> None:
        for batch in _batches(partitions):
            known = [Compare(ready_key(p), view.ready[p].mod_revision) for p in batch]
            await self._txn(known, [Delete(ready_key(p)) for p in batch])

    # --- letting go ----------------------------------------------------------------------------------

    async def hand_over(self, partitions: Sequence[int], view: View) -> None:
        """Stop at a tick, wait for its acknowledgement, store (T, X), delete the keys."""
        assert self.ticker is not None
        # What was dropped since the view was read is not ours to hand over: the next look finds its key.
        partitions = [partition for partition in partitions if partition in self._holdings]
        unsettled = self._unsettled()
        for partition in partitions:
            if partition in unsettled:
                self._ledger.leave(partition)  # Its T stays where it is stored, also once it is let go.
            else:
                # From now on its T stays at the last tick that it took part in.
                self._ledger.pin(partition)
        self._let_go(partitions)
        self.handing_over.update(partitions)
        try:
            with trio.move_on_after(ACKNOWLEDGED_WITHIN_S):
                await self.ticker.all_acknowledged()
            await self.store_watermarks(partitions)
            await self.release({p: view.owners[p].mod_revision for p in partitions})
        finally:
            for partition in partitions:
                self._ledger.leave(partition)
            self.handing_over.difference_update(partitions)

    async def release(self, keys: Mapping[int, int]) -> None:
        """Delete our keys, each with the mod revision under which it is ours."""
        for batch in _batches(sorted(keys)):
            compare = [Compare(owner_key(p), keys[p]) for p in batch]
            await self._txn(compare, [Delete(owner_key(p)) for p in batch])

    def drop(self, partitions: Iterable[int]) -> None:
        """Stop firing these now."""
        for partition in self._let_go(partitions):
            self._ledger.leave(partition)

    def _let_go(self, partitions: Iterable[int]) -> list[int]:
        gone = take_away(self._holdings, partitions)
        for partition in gone:
            if self.ticker is not None:
                self.ticker.drop(partition)
        self._intake.forget(gone)
        return gone

    async def store_watermarks(self, only: Collection[int] | None = None) -> int:
        """Store how far each partition (or only some) was fired; drop those that another shard took. Returns
        how many."""
        unsettled = self._unsettled()
        watermarks = [mark for mark in self._ledger.watermarks() if mark.partition not in unsettled]
        if only is not None:
            watermarks = [mark for mark in watermarks if mark.partition in only]
        if not watermarks or self.ground is None:
            return 0
        refused = await self._store.store_watermarks(watermarks, self.ground.identity)
        self._ledger.stored(mark for mark in watermarks if mark.partition not in refused)
        # A mark may be of an epoch that was ours when the store began, and was bumped again by us since.
        refused = {m.partition for m in watermarks if m.partition in refused and self._ledger.is_under(m)}
        if refused:
            self.drop(refused)
            raise OwnershipError(
                f"another shard took over {len(refused)} partitions: {sorted(refused)[:8]} …"
            )
        return len(watermarks)

    async def _txn(self, compare: Sequence[Compare], then: Sequence[Put | Delete]) -> TxnResult:
        try:
            answer = await self._leases.txn(compare, then)
        except NotFoundError as error:
            raise OwnershipError("the shard's lease is gone: it must start over as somebody new") from error
        self.revision = max(self.revision, answer.revision)
        return answer


def _batches(partitions: Sequence[int]) -> list[Sequence[int]]:
    return [partitions[start : start + KEYS_AT_ONCE] for start in range(0, len(partitions), KEYS_AT_ONCE)]
