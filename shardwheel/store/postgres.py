"""`PostgresStore`: what the rooms ask of PostgreSQL, on a pool. One line a method: the statements are
functions elsewhere, and work on anyone's connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from shardwheel.execution import (
    Beat,
    Callback,
    Claimant,
    Claimed,
    ClaimReply,
    Counts,
    Held,
    ResultsStand,
    Settled,
    UnpublishedLetter,
)
from shardwheel.job import Changes
from shardwheel.keeping import Keep
from shardwheel.ports import Identity, PartitionState, Watermark
from shardwheel.store import (
    callbacks,
    claim,
    counts,
    expand,
    feed,
    floors,
    heartbeat,
    letter_topic,
    months,
    ownership,
    retention,
    settle,
    sweep,
)
from shardwheel.store.pool import Pool
from shardwheel.wire import Fire, Result


class PostgresStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    # --- time and ownership --------------------------------------------------------------------------

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

    async def store_floors(self, fired: Sequence[PartitionState]) -> int:
        return await self._pool.run(floors.store_floors, fired)

    # --- the shard: what to hold, what to put right --------------------------------------------------

    def load(self, partitions: Sequence[int]) -> AbstractAsyncContextManager[AsyncIterator[Changes]]:
        return self._pool.stream(feed.load, partitions)

    async def changes(self, partitions: Sequence[int], since: str) -> Changes:
        return await self._pool.run(feed.changes, partitions, since)

    async def sweep_lost(self, partitions: Sequence[int], stand: ResultsStand) -> dict[str, int]:
        return await self._pool.run(sweep.sweep_lost, partitions, stand)

    async def sweep_held(self, partitions: Sequence[int]) -> int:
        return await self._pool.run(sweep.sweep_held, partitions)

    async def sweep_completed(self, partitions: Sequence[int]) -> int:
        return await self._pool.run(sweep.sweep_completed, partitions)

    async def sweep_overdue(self, partitions: Sequence[int]) -> int:
        return await self._pool.run(sweep.sweep_overdue, partitions)

    async def expand_work(self, partitions: Sequence[int], most: int) -> int:
        return await self._pool.run(expand.expand_work, partitions, most)

    async def counts(self, partitions: Sequence[int]) -> Counts:
        return await self._pool.run(counts.read_counts, partitions)

    async def make_months(self) -> list[str]:
        return await self._pool.run(months.make_months)

    # --- the gate: workers and results ---------------------------------------------------------------

    async def claim(self, fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply:
        return await self._pool.run(claim.claim, fires, claimant)

    async def claimed_by(self, fires: Iterable[Fire], token: bytes) -> list[Claimed]:
        return await self._pool.run(claim.claimed_by, fires, token)

    async def heartbeat(self, held: Sequence[Held], pool: str, results_generation: str) -> Beat:
        return await self._pool.run(heartbeat.heartbeat, held, pool, results_generation)

    async def settle(self, results: Sequence[Result]) -> Settled:
        return await self._pool.run(settle.settle, results)

    # --- the end: who is told, and what is kept ------------------------------------------------------

    async def take_callbacks(self, most: int, busy: Collection[str]) -> list[Callback]:
        return await self._pool.run(callbacks.take_callbacks, most, busy)

    async def callback_delivered(self, callback: Callback) -> None:
        await self._pool.run(callbacks.callback_delivered, callback)

    async def callback_failed(self, callback: Callback, problem: str, pause: timedelta | None) -> None:
        await self._pool.run(callbacks.callback_failed, callback, problem, pause)

    async def take_letters(self, most: int) -> list[UnpublishedLetter]:
        return await self._pool.run(letter_topic.take_letters, most)

    async def letters_published(self, letter_ids: Sequence[bytes]) -> None:
        await self._pool.run(letter_topic.letters_published, letter_ids)

    async def retire_executions(self, keep: Keep, after: bytes) -> retention.Retired:
        return await self._pool.run(retention.retire_executions, keep, after)

    async def retire_others(self, name: str, keep: Keep) -> int:
        return await self._pool.run(retention.retire_others, name, keep)

    async def drop_empty_months(self, keep: Keep) -> list[str]:
        return await self._pool.run(retention.drop_empty_months, keep)
