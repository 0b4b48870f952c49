"""APScheduler 4 (a pre-release) on PostgreSQL through asyncpg, many jobs at once.

One process, so its local event broker is enough; the one on asyncpg does not run with the locked anyio.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer
from shardwheel.bench.peers.work import Once, Plan

_LIMIT_S = 600
_STOP_S = 15
_AT_ONCE = 16


async def run(number: int) -> None:
    started(number)


class InPostgres(Peer):
    package = "apscheduler"
    settings = "SQLAlchemyDataStore on asyncpg, local broker, uvloop, 500 jobs at once, of one task too"
    inside = True

    def serve(self, plans: Sequence[Plan]) -> None:
        import uvloop

        ready = threading.Event()
        self._thread = threading.Thread(target=uvloop.run, args=(self._work(ready),), daemon=True)
        self._thread.start()
        ready.wait(_LIMIT_S)

    async def _work(self, ready: threading.Event) -> None:
        from apscheduler import AsyncScheduler, TaskDefaults
        from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
        from sqlalchemy.ext.asyncio import create_async_engine

        self._loop = asyncio.get_running_loop()
        engine = create_async_engine(self.place.dsn.replace("postgresql:", "postgresql+asyncpg:", 1))
        # Of one task it runs one job at a time, if nothing is said.
        defaults = TaskDefaults(max_running_jobs=None)
        async with AsyncScheduler(
            SQLAlchemyDataStore(engine), max_concurrent_jobs=500, task_defaults=defaults
        ) as self._scheduler:
            await self._scheduler.start_in_background()
            ready.set()
            await self._scheduler.wait_until_stopped()

    def close(self) -> None:
        """In the host: what it holds is given back, or who comes next would wait for its leases to end."""
        if hasattr(self, "_scheduler"):
            self._do(self._scheduler.stop())
            self._thread.join(_STOP_S)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LIMIT_S)

    def add_once(self, jobs: Sequence[Once]) -> None:
        from apscheduler.triggers.date import DateTrigger

        def add(job: Once) -> Coroutine[Any, Any, Any]:
            trigger = DateTrigger(datetime.fromtimestamp(job.due_s, UTC))
            return self._add_schedule(trigger, job.number)

        self._do(self._several([add(job) for job in jobs]))

    def enqueue(self, numbers: Sequence[int]) -> None:
        self._do(self._several([self._scheduler.add_job(run, args=[number]) for number in numbers]))

    def add_recurring(self, plans: Sequence[Plan]) -> None:
        from apscheduler.triggers.interval import IntervalTrigger

        now_s = datetime.now(UTC).timestamp()

        def add(plan: Plan) -> Coroutine[Any, Any, Any]:
            first = datetime.fromtimestamp(plan.next_s(now_s), UTC)
            return self._add_schedule(IntervalTrigger(seconds=plan.period_s, start_time=first), plan.number)

        self._do(self._several([add(plan) for plan in plans]))

    async def _add_schedule(self, trigger: Any, number: int) -> None:
        await self._scheduler.add_schedule(run, trigger, args=[number], id=str(number))

    async def _several(self, work: Sequence[Coroutine[Any, Any, Any]]) -> None:
        """It has no call that adds many: a few at a time are quicker than one after the other."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(step: Coroutine[Any, Any, Any]) -> None:
            async with room:
                await step

        await asyncio.gather(*(one(step) for step in work))

    def unfinished(self) -> int:
        with psycopg.connect(self.place.dsn) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM jobs")
            return int(count)
