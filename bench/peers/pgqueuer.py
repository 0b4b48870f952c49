"""PgQueuer: jobs in PostgreSQL through asyncpg, batches of 100, woken by NOTIFY, uvloop.

Its recurring jobs are code: each is a row too, found by the worker that has the same code.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer, Place
from shardwheel.bench.peers.work import Once, Plan

_LIMIT_S = 600
_BATCH = 100


class InPostgres(Peer):
    package = "pgqueuer"
    settings = "asyncpg, uvloop, batches of 100, dequeue timeout 0.1 s, enqueue by lists"
    declares = True

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._runner = asyncio.Runner()
        self._adding: Any = None

    def create(self) -> None:
        async def work(queries: Any) -> None:
            await queries.install()

        self._alone(work)

    def serve(self, plans: Sequence[Plan]) -> None:
        import uvloop

        ready = threading.Event()
        threading.Thread(target=uvloop.run, args=(self._work(plans, ready),), daemon=True).start()
        ready.wait(_LIMIT_S)

    async def _work(self, plans: Sequence[Plan], ready: threading.Event) -> None:
        import asyncpg
        from pgqueuer import PgQueuer

        pool = await asyncpg.create_pool(self.place.dsn, min_size=2, max_size=10)
        queue = PgQueuer.from_asyncpg_pool(pool)

        @queue.entrypoint("run")  # type: ignore[untyped-decorator]
        async def run(job: Any) -> None:
            started(int(job.payload))

        for plan in plans:
            queue.schedule(f"plan-{plan.number}", plan.cron)(_recurring(plan.number))
        ready.set()
        await queue.run(dequeue_timeout=timedelta(seconds=0.1), batch_size=_BATCH)

    def add_once(self, jobs: Sequence[Once]) -> None:
        self._enqueue([job.number for job in jobs], [job.due_s for job in jobs])

    def enqueue(self, numbers: Sequence[int]) -> None:
        self._enqueue(numbers, None)

    def _enqueue(self, numbers: Sequence[int], dues_s: Sequence[float] | None) -> None:
        count = len(numbers)

        async def work(queries: Any) -> None:
            payloads = [str(number).encode() for number in numbers]
            # It takes a delay from when the statement runs: so at the last moment, or all would be late.
            now_s = time.time()
            after = None if dues_s is None else [timedelta(seconds=due_s - now_s) for due_s in dues_s]
            await queries.enqueue(["run"] * count, payloads, [0] * count, after)

        self._alone(work)

    def _alone(self, work: Callable[[Any], Awaitable[None]]) -> None:
        """In the driver: a connection that only adds, and stays."""

        async def main() -> None:
            import asyncpg
            from pgqueuer import Queries
            from pgqueuer.db import AsyncpgDriver

            if self._adding is None:
                self._adding = await asyncpg.connect(self.place.dsn)
            await work(Queries(AsyncpgDriver(self._adding)))

        self._runner.run(main())

    def close(self) -> None:
        if self._adding is not None:
            self._runner.run(self._adding.close())
        self._runner.close()

    def unfinished(self) -> int:
        with psycopg.connect(self.place.dsn) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM pgqueuer WHERE execute_after <= now()")
            return int(count)


def _recurring(number: int) -> Callable[[Any], Awaitable[None]]:
    async def run(schedule: Any) -> None:
        started(number)

    return run
