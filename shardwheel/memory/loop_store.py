"""`MemoryLoopStore`: all that the loop asks of PostgreSQL, in memory. The twin of `store.postgres`.

The methods call the same functions of `store/` as the real one; only the statements below them are twins.

    server = loop_server(seed=7)
    store = MemoryLoopStore(MemoryPool(server))
    (job_id,) = await store.run(create_jobs, "acme", [posting])
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from psycopg import Connection

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
from shardwheel.memory import (
    claim_statements,
    dag_again_statements,
    dag_definition_statements,
    dag_fan_statements,
    dag_hand_statements,
    dag_put_off_statements,
    dag_statements,
    feed_statements,
    held_statements,
    job_statements,
    lookup_statements,
    notes_statements,
    ownership,
    rows,
    settle_statements,
    task_statements,
)
from shardwheel.memory.connection import MemoryConnection
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.store import MemoryStore
from shardwheel.memory.transaction import Transaction
from shardwheel.ports import PartitionState
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
    settle,
    sweep,
    tallies,
    workers,
)
from shardwheel.wire import Fire, Result

P = ParamSpec("P")
T = TypeVar("T")

# Imported for the statements that they register.
STATEMENT_MODULES = (
    claim_statements,
    dag_again_statements,
    dag_definition_statements,
    dag_fan_statements,
    dag_hand_statements,
    dag_put_off_statements,
    dag_statements,
    feed_statements,
    held_statements,
    job_statements,
    lookup_statements,
    notes_statements,
    settle_statements,
    task_statements,
)


def loop_server(
    *,
    seed: int = 0,
    partitions: int = ownership.PARTITIONS,
    clock_ms: Callable[[], float] | None = None,
) -> MemoryPostgres:
    """A migrated server. Fewer partitions make a simulation cheaper: nobody can own what has no row."""
    server = MemoryPostgres(
        tables=(ownership.TABLE, *rows.TABLES, dag_definition_statements.DAG_DEFINITIONS),
        seed=seed,
        clock_ms=clock_ms,
    )
    transaction = server.begin()
    ownership.fill_partitions(transaction, partitions)
    transaction.commit()
    return server


class MemoryLoopStore(MemoryStore):
    async def run(
        self, fn: Callable[Concatenate[Connection[Any], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function of `store/` in a transaction of its own, as `Pool.run` does."""

        def work(transaction: Transaction) -> T:
            return fn(cast(Connection[Any], MemoryConnection(transaction)), *args, **kwargs)

        return await self._pool.run(work)

    async def store_floors(self, fired: Sequence[PartitionState]) -> int:
        return await self.run(floors.store_floors, fired)

    @asynccontextmanager
    async def load(self, partitions: Sequence[int]) -> AsyncIterator[AsyncIterator[Changes]]:
        yield _one(await self._pool.run(_load, list(partitions)))

    async def changes(self, partitions: Sequence[int], since: str) -> Changes:
        return await self.run(feed.changes, partitions, since)

    async def sweep_lost(self, partitions: Sequence[int], stand: ResultsStand) -> Settled:
        return await self.run(sweep.sweep_lost, partitions, stand)

    async def sweep_tasks(self, partitions: Sequence[int], stand: ResultsStand) -> Settled:
        return await self.run(dag_sweep.sweep_tasks, partitions, stand)

    async def sweep_runs(self, partitions: Sequence[int], after: bytes) -> tuple[Resolved, bytes]:
        return await self.run(dag_sweep.sweep_runs, partitions, after)

    async def sweep_put_off(self, partitions: Sequence[int]) -> Resolved:
        return await self.run(dag_put_off.sweep_put_off, partitions)

    async def sweep_held(self, partitions: Sequence[int], pages: HoldPages) -> HoldPages:
        return await self.run(held.sweep_held, partitions, pages)

    async def sweep_slots(self, partitions: Sequence[int]) -> int:
        return await self.run(held.sweep_slots, partitions)

    async def sweep_completed(self, partitions: Sequence[int], after: EndingPage) -> tuple[int, EndingPage]:
        return await self.run(sweep.sweep_completed, partitions, after)

    async def sweep_overdue(self, partitions: Sequence[int]) -> int:
        return await self.run(sweep.sweep_overdue, partitions)

    async def expand_work(self, partitions: Sequence[int], most: int) -> int:
        return await self.run(expand.expand_work, partitions, most)

    async def counts(self, partitions: Sequence[int]) -> Counts:
        return await self.run(counts.read_counts, partitions)

    async def make_months(self) -> list[str]:
        return await self.run(months.make_months)

    async def claim(self, fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply:
        return await self.run(claim.claim, fires, claimant)

    async def held_for_workers(self, pool: str, tasks: Collection[str], most: int) -> list[tuple[Fire, int]]:
        return await self.run(held.held_for_workers, pool, tasks, most)

    async def claimed_by(self, fires: Iterable[Fire], token: bytes) -> list[Claimed]:
        return await self.run(claim.claimed_by, fires, token)

    async def heartbeat(self, held: Sequence[Held], pool: str, results_generation: str) -> Beat:
        return await self.run(heartbeat.heartbeat, held, pool, results_generation)

    async def to_stop(self, worker: str) -> frozenset[bytes]:
        return await self.run(notes.to_stop, worker)

    async def write_notes(self, said: Sequence[Note], log_limit_bytes: int) -> None:
        await self.run(notes.write_notes, said, log_limit_bytes)

    async def store_checkpoint(self, held: Held, data: bytes) -> bool:
        return await self.run(notes.store_checkpoint, held, data)

    async def load_checkpoint(self, held: Held) -> bytes | None:
        return await self.run(notes.load_checkpoint, held)

    async def load_inputs(self, execution_id: bytes) -> bytes:
        return await self.run(dag_inputs.load_inputs, execution_id)

    async def announce_worker(self, worker: WorkerCard) -> None:
        await self.run(workers.announce_worker, worker)

    async def withdraw_worker(self, worker_id: str) -> None:
        await self.run(workers.withdraw_worker, worker_id)

    async def tally(self, counted: Mapping[TaskName, Tally], lane: int) -> None:
        await self.run(tallies.tally, counted, lane)

    async def settle(self, results: Sequence[Result], *, put_off: bool = False) -> Settled:
        return await self.run(settle.settle, results, put_off=put_off)

    async def runs_put_off(self, after: bytes) -> list[bytes]:
        return await self.run(dag_put_off.runs_put_off, after)

    async def tell_runs(self, run_ids: Sequence[bytes]) -> Told:
        return await self.run(dag_put_off.tell_runs, run_ids)


def _load(transaction: Transaction, partitions: list[int]) -> Changes:
    given = {"partitions": partitions}
    ((snapshot, horizon_xid),) = feed_statements.snapshot(transaction, {})
    jobs = feed_statements.load_jobs(transaction, given)
    return Changes(jobs, feed_statements.load_waiting(transaction, given), snapshot, horizon_xid)


async def _one(changes: Changes) -> AsyncIterator[Changes]:
    yield changes
