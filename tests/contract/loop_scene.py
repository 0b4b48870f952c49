"""A scene for the contract of the loop's store: one store, whichever it is, and what one does to it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import Connection

from shardwheel.execution import FIRST_PAGES, Claimant, Claimed, ClaimReply, ResultsStand
from shardwheel.ids import fire_id
from shardwheel.job import Changes
from shardwheel.limits import TaskName, TaskType, WorkerCard
from shardwheel.posting import parse_posting
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, get_job
from shardwheel.store.task_types import limit_task
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome, Result
from tests.contract.loop_rig import LoopRig, LoopStore

ALL = range(256)
NOWHERE = ResultsStand("g", {})
# Of which type the jobs of a scene are.
WORK = TaskName("t", "work")


class Scene:
    """One store with one job that runs every ten seconds; what one does to both."""

    def __init__(self, rig: LoopRig, store: LoopStore) -> None:
        self.rig = rig
        self.store = store

    async def create(self, **fields: Any) -> JobRow:
        posting = parse_posting({"task": "work"} | fields)
        (job_id,) = await self.rig.run(create_jobs, "t", [posting])
        return await self.job(job_id)

    async def job(self, job_id: bytes) -> JobRow:
        return await self.rig.run(get_job, "t", job_id)

    async def aged(self, by_ms: int, **fields: Any) -> JobRow:
        job = await self.create(**fields)
        await self.rig.age(job.job_id, by_ms)
        return await self.job(job.job_id)

    async def claim(self, *fires: Fire, **claimant: Any) -> ClaimReply:
        values = {"worker": "w", "pool": "short", "tasks": frozenset({"work"}), "token": uuid.uuid4().bytes}
        return await self.store.claim([(fire, 2) for fire in fires], Claimant(**(values | claimant)))

    async def running(self, job: JobRow, at_ms: int = 0) -> Claimed:
        (claimed,) = (await self.claim(fire_of(job, at_ms))).claimed
        return claimed

    async def announce(self, *tasks: str, worker: str = "w", pool: str = "short") -> None:
        await self.store.announce_worker(WorkerCard(worker, pool, tasks, 8, ""))

    async def limit(self, **limits: Any) -> TaskType:
        def limit(conn: Connection[Any]) -> TaskType:
            return limit_task(conn, "t", "work", **limits)

        return await self.rig.run(limit)

    async def claim_times(self, job: JobRow, *times_ms: int, **claimant: Any) -> list[int]:
        """Claim the fires of these times; which of them run."""
        reply = await self.claim(*(fire_of(job, at_ms) for at_ms in times_ms), **claimant)
        return sorted(claimed.scheduled_ms - job.effective_from_ms for claimed in reply.claimed)

    async def sweep_held(self) -> None:
        await self.store.sweep_held(list(ALL), FIRST_PAGES)

    async def states(self) -> list[tuple[str, str | None, int]]:
        return [(row.state, row.reason, row.attempt) for row in await self.rig.executions()]

    async def reasons(self) -> list[str]:
        """In the order of their times: why each is held, or else its state."""
        rows = await self.rig.executions()
        return [(row.reason or "") if row.state == "held" else row.state for row in rows]

    async def load(self) -> Changes:
        jobs, waiting, snapshot, horizon_xid = [], [], "", 0
        async with self.store.load(list(ALL)) as batches:
            async for batch in batches:
                jobs += batch.jobs
                waiting += batch.waiting
                snapshot, horizon_xid = batch.snapshot, batch.horizon_xid
        return Changes(jobs, waiting, snapshot, horizon_xid)


@asynccontextmanager
async def scene(rig: LoopRig) -> AsyncIterator[Scene]:
    async with rig.open() as store:
        yield Scene(rig, store)


def fire_of(job: JobRow, at_ms: int = 0, **fields: Any) -> Fire:
    """As a shard would publish the job's time so many milliseconds after its beginning."""
    scheduled_ms = job.effective_from_ms + at_ms
    values: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "kind": FireKind.FIRE,
        "execution_id": fire_id(job.job_id, job.partition, scheduled_ms),
        "job_id": job.job_id,
        "partition": job.partition,
        "schedule_no": job.schedule_no,
        "scheduled_ms": scheduled_ms,
        "due_ms": scheduled_ms,
        "attempt": 1,
    }
    return Fire(**(values | fields))


def result_of(claimed: Claimed, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> Result:
    head = (FORMAT_VERSION, claimed.execution_id, claimed.job_id, claimed.partition, claimed.attempt)
    tail = (claimed.claim_token, outcome, claimed.due_ms, claimed.due_ms + 40, "w")
    return Result(*head, *tail, **fields)


def told(claimed: Claimed, outcome: Outcome = Outcome.SUCCEEDED) -> Result:
    """Its result, as a worker tells whose it was: runs are counted by that."""
    return result_of(claimed, outcome, tenant_id=WORK.tenant_id, task=WORK.task)
