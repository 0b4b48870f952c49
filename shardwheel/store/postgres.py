"""`PostgresStore`: the port `Store` on a pool. One line a method: the statements are functions elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardwheel.ports import Identity, PartitionState, Watermark
from shardwheel.store import ownership
from shardwheel.store.pool import Pool


class PostgresStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def now_ms(self) -> float:
        return await self._pool.run(ownership.read_now_ms)

    async def identity(self) -> Identity:
        return await self._pool.run(ownership.read_identity)

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
