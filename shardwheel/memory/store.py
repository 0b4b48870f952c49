"""`MemoryStore`: the port `Store` on the in-memory PostgreSQL; the twin of `store.postgres`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardwheel.memory import ownership
from shardwheel.memory.pool import MemoryPool
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.transaction import Transaction
from shardwheel.ports import Identity, PartitionState, Watermark

TABLES = (ownership.TABLE,)


def migrated_server() -> MemoryPostgres:
    """A server with all tables, as after `shardctl migrate`."""
    server = MemoryPostgres(tables=TABLES)
    transaction = server.begin()
    ownership.fill_partitions(transaction)
    transaction.commit()
    return server


class MemoryStore:
    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool

    async def now_ms(self) -> float:
        return await self._pool.run(_now_ms)

    async def identity(self) -> Identity:
        return await self._pool.run(_identity)

    async def partitions(self, partitions: Sequence[int]) -> list[PartitionState]:
        return await self._pool.run(ownership.read_partitions, partitions)

    async def take_partitions(self, seen: Mapping[int, int], owner: str) -> list[PartitionState]:
        return await self._pool.run(ownership.take_partitions, seen, owner)

    async def store_watermarks(self, watermarks: Sequence[Watermark], identity: Identity) -> set[int]:
        return await self._pool.run(ownership.store_watermarks, watermarks, identity)

    async def reset_to_floor(
        self, seen: Mapping[int, int], owner: str, *, kafka_generation: str, identity: Identity
    ) -> list[PartitionState]:
        return await self._pool.run(ownership.reset_to_floor, seen, owner, kafka_generation, identity)


def _now_ms(transaction: Transaction) -> float:
    return transaction.server.now_ms()


def _identity(transaction: Transaction) -> Identity:
    return transaction.server.identity
