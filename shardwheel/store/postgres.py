"""`PostgresStore`: what the rooms ask of PostgreSQL, on a pool. One line a method: the statements are
functions elsewhere, and work on anyone's connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from shardwheel.execution import (
    Beat,
    Claimant,
    Claimed,
    ClaimReply,
    Counts,
    EndingPage,
    Held,
    HoldPages,
    Note,
    Resolved,
    ResultsStand,
    Settled,
    Told,
)
from shardwheel.job import Changes
from shardwheel.limits import Tally, TaskName, WorkerCard
from shardwheel.ports import Identity, PartitionState, Watermark
from shardwheel.store import (
    claim,
    counts,
    dag_inputs,
    dag_put_off,
    dag_sweep,
    expand,
    feed,
    floors,
    heartbeat,
    held,
    months,
    notes,
    ownership,
    settle,
    sweep,
    tallies,
    workers,
)
from shardwheel.store.failures import data_may_be_refused
from shardwheel.store.pool import Pool
from shardwheel.wire import Fire, Result


class PostgresStore:
    """`feed`: a pool for the change feed alone, where somebody waits for it. Whoever reads it again and again
    then has a link whose server knows the tables and has the plan, and never waits for a link of others. But
    nor does it notice when theirs break: so it is asked which PostgreSQL it leads to."""

    def __init__(self, pool: Pool, feed: Pool | None = None) -> None:
        self._pool = pool
        self._feed = feed or pool
        self._identity: Identity | None = None

    # --- time and ownership --------------------------------------------------------------------------

    async def now_ms(self) -> float:
        return await self._pool.run(ownership.read_now_ms)

    async def identity(self) -> Identity:
        self._identity = await self._pool.run(ownership.read_identity)
        return self._identity

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
        return await self._feed.run(feed.changes, partitions, since, self._identity)

    async def sweep_lost(self, partitions: Sequence[int], stand: ResultsStand) -> Settled:
        return await self._pool.run(sweep.sweep_lost, partitions, stand)

    async def sweep_tasks(self, partitions: Sequence[int], stand: ResultsStand) -> Settled:
        with data_may_be_refused():
            return await self._pool.run(dag_sweep.sweep_tasks, partitions, stand)

    async def sweep_runs(self, partitions: Sequence[int], after: bytes) -> tuple[Resolved, bytes]:
        with data_may_be_refused():
            return await self._pool.run(dag_sweep.sweep_runs, partitions, after)

    async def sweep_put_off(self, partitions: Sequence[int]) -> Resolved:
        with data_may_be_refused():
            return await self._pool.run(dag_put_off.sweep_put_off, partitions)

    async def sweep_held(self, partitions: Sequence[int], pages: HoldPages) -> HoldPages:
        return await self._pool.run(held.sweep_held, partitions, pages)

    async def sweep_slots(self, partitions: Sequence[int]) -> int:
        return await self._pool.run(held.sweep_slots, partitions)

    async def sweep_completed(self, partitions: Sequence[int], after: EndingPage) -> tuple[int, EndingPage]:
        return await self._pool.run(sweep.sweep_completed, partitions, after)

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

    async def held_for_workers(self, pool: str, tasks: Collection[str], most: int) -> list[tuple[Fire, int]]:
        return await self._pool.run(held.held_for_workers, pool, tasks, most)

    async def claimed_by(self, fires: Iterable[Fire], token: bytes) -> list[Claimed]:
        return await self._pool.run(claim.claimed_by, fires, token)

    async def heartbeat(self, held: Sequence[Held], pool: str, results_generation: str) -> Beat:
        return await self._pool.run(heartbeat.heartbeat, held, pool, results_generation)

    async def to_stop(self, worker: str) -> frozenset[bytes]:
        return await self._pool.run(notes.to_stop, worker)

    async def write_notes(self, said: Sequence[Note], log_limit_bytes: int) -> None:
        await self._pool.run(notes.write_notes, said, log_limit_bytes)

    async def store_checkpoint(self, held: Held, data: bytes) -> bool:
        return await self._pool.run(notes.store_checkpoint, held, data)

    async def load_checkpoint(self, held: Held) -> bytes | None:
        return await self._pool.run(notes.load_checkpoint, held)

    async def load_inputs(self, execution_id: bytes) -> bytes:
        return await self._pool.run(dag_inputs.load_inputs, execution_id)

    async def settle(self, results: Sequence[Result], *, put_off: bool = False) -> Settled:
        with data_may_be_refused():
            return await self._pool.run(settle.settle, results, put_off=put_off)

    async def runs_put_off(self, after: bytes) -> list[bytes]:
        return await self._pool.run(dag_put_off.runs_put_off, after)

    async def tell_runs(self, run_ids: Sequence[bytes]) -> Told:
        with data_may_be_refused():
            return await self._pool.run(dag_put_off.tell_runs, run_ids)

    async def announce_worker(self, worker: WorkerCard) -> None:
        await self._pool.run(workers.announce_worker, worker)

    async def withdraw_worker(self, worker_id: str) -> None:
        await self._pool.run(workers.withdraw_worker, worker_id)

    async def tally(self, counted: Mapping[TaskName, Tally], lane: int) -> None:
        await self._pool.run(tallies.tally, counted, lane)
