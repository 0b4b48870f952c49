"""Owning partitions: a key in etcd says who, an epoch in PostgreSQL says who may store a watermark.

    read the epochs → write owners/<p> where it is absent → bump the epochs seen → load → fire

In this order, so that a shard which was slow between two steps is refused at the next one. Everything
already owned goes on firing while etcd or PostgreSQL is away; only taking waits for them. A partition that
is refused (its watermark, its epoch) is dropped at once and taken again only through the same door.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from shardwheel.errors import NotFoundError, OwnershipError
from shardwheel.partition import PARTITIONS
from shardwheel.ports import Compare, Identity, Leases, PartitionState, Put, Store
from shardwheel.shard.holding import Holding, Stand
from shardwheel.shard.intake import Feed, Intake
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.ticker import Ticker

# Two operations a key, far below etcd's limit of 128 a transaction.
KEYS_AT_ONCE = 64


class OwnerStore(Store, Feed, Protocol):
    """What owning asks of the store."""


class Owner:
    """The partitions of one shard: takes what nobody owns, drops what it lost."""

    def __init__(
        self,
        shard_id: str,
        store: OwnerStore,
        leases: Leases,
        intake: Intake,
        ledger: Ledger,
        holdings: dict[int, Holding],
    ) -> None:
        self._shard_id = shard_id
        self._store = store
        self._leases = leases
        self._intake = intake
        self._ledger = ledger
        self._holdings = holdings
        self.ticker: Ticker | None = None
        self.generation = ""
        self.identity = Identity(0, 0)

    @property
    def partitions(self) -> list[int]:
        return sorted(self._holdings)

    async def acquire(self, lease: int) -> list[int]:
        """Take every partition that nobody owns (or whose key is ours already); returns those taken."""
        states = {state.partition: state for state in await self._store.partitions(range(PARTITIONS))}
        mine = await self._write_keys(lease, [p for p in sorted(states) if p not in self._holdings])
        taken = await self._take([states[partition] for partition in mine])
        stands = {state.partition: Stand(state.fired_through_ms, state.horizon_xid) for state in taken}
        if stands:
            loaded = await self._intake.load(stands)
            for state in taken:
                self._ledger.enter(state.partition, state.epoch)
            self._holdings.update(loaded)
        return sorted(stands)

    def drop(self, partitions: Iterable[int]) -> None:
        """Stop firing these now."""
        gone = [partition for partition in partitions if partition in self._holdings]
        for partition in gone:
            del self._holdings[partition]
            self._ledger.leave(partition)
            if self.ticker is not None:
                self.ticker.drop(partition)
        self._intake.forget(gone)

    async def store_watermarks(self) -> int:
        """Store how far each partition was fired; drop those that another shard took. Returns how many."""
        watermarks = self._ledger.watermarks()
        if not watermarks:
            return 0
        refused = await self._store.store_watermarks(watermarks, self.identity)
        self._ledger.stored(mark for mark in watermarks if mark.partition not in refused)
        if refused:
            self.drop(refused)
            raise OwnershipError(
                f"another shard took over {len(refused)} partitions: {sorted(refused)[:8]} …"
            )
        return len(watermarks)

    async def _write_keys(self, lease: int, wanted: Sequence[int]) -> list[int]:
        """The partitions whose key names us now: those that were absent, and those that were ours."""
        held = {item.key: item.value.decode() for item in (await self._leases.range("owners/")).items}
        mine = [p for p in wanted if held.get(_key(p)) == self._shard_id]
        free = [p for p in wanted if _key(p) not in held]
        for start in range(0, len(free), KEYS_AT_ONCE):
            batch = free[start : start + KEYS_AT_ONCE]
            try:
                answer = await self._leases.txn(
                    [Compare(_key(p), 0) for p in batch],
                    [Put(_key(p), self._shard_id.encode(), lease) for p in batch],
                )
            except NotFoundError as error:
                raise OwnershipError(
                    "the shard's lease is gone: it must start over as somebody new"
                ) from error
            if answer.succeeded:
                mine += batch
        return mine

    async def _take(self, states: Sequence[PartitionState]) -> list[PartitionState]:
        """Bump the epochs. Where Kafka's data or PostgreSQL is not the one that T and X were stored under,
        fires or claims may be gone: those go on from the claim floor."""
        present = {state.partition: state.epoch for state in states if self._is_present(state)}
        other = {state.partition: state.epoch for state in states if not self._is_present(state)}
        taken: list[PartitionState] = []
        if present:
            taken += await self._store.take_partitions(present, self._shard_id)
        if other:
            taken += await self._store.reset_to_floor(
                other, self._shard_id, kafka_generation=self.generation, identity=self.identity
            )
        return taken

    def _is_present(self, state: PartitionState) -> bool:
        return state.kafka_generation == self.generation and state.identity == self.identity


def _key(partition: int) -> str:
    return f"owners/{partition}"
