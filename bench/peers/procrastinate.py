"""Procrastinate: jobs in PostgreSQL, an asyncio worker with many at once, woken by NOTIFY.

Its recurring tasks are code, each with an id, and are worked out anew at every tick by croniter.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import psycopg

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer, Place
from shardwheel.bench.peers.work import Once, Plan

_LIMIT_S = 600
_CONCURRENCY = 100


class InPostgres(Peer):
    package = "procrastinate"
    settings = "one worker, concurrency 100, NOTIFY, polls each 0.1 s, batch_defer, pool of 20"
    declares = True

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._runner = asyncio.Runner()
        self._adding: Any = None

    def create(self) -> None:
        async def work(app: Any) -> None:
            await app.schema_manager.apply_schema_async()

        self._alone(work)

    def serve(self, plans: Sequence[Plan]) -> None:
        ready = threading.Event()

        async def main() -> None:
            app, _ = _app(self.place.dsn, plans)
            async with app.open_async():
                ready.set()
                await app.run_worker_async(
                    concurrency=_CONCURRENCY, fetch_job_polling_interval=0.1, install_signal_handlers=False
                )

        threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
        ready.wait(_LIMIT_S)

    def add_once(self, jobs: Sequence[Once]) -> None:
        async def work(app: Any) -> None:
            for due_s, same in groupby(jobs, key=lambda job: job.due_s):
                deferrer = app.tasks["run"].configure(schedule_at=datetime.fromtimestamp(due_s, UTC))
                await deferrer.batch_defer_async(*({"number": job.number} for job in same))

        self._alone(work)

    def enqueue(self, numbers: Sequence[int]) -> None:
        async def work(app: Any) -> None:
            await app.tasks["run"].batch_defer_async(*({"number": number} for number in numbers))

        self._alone(work)

    def _alone(self, work: Callable[[Any], Awaitable[None]]) -> None:
        """In the driver: an app that only adds, and stays open."""

        async def main() -> None:
            if self._adding is None:
                self._adding, _ = _app(self.place.dsn, ())
                await self._adding.open_async()
            await work(self._adding)

        self._runner.run(main())

    def close(self) -> None:
        if self._adding is not None:
            self._runner.run(self._adding.close_async())
        self._runner.close()

    def unfinished(self) -> int:
        with psycopg.connect(self.place.dsn) as connection:
            ((count,),) = connection.execute(
                "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
                " AND (scheduled_at IS NULL OR scheduled_at <= now())"
            )
            return int(count)


def _app(dsn: str, plans: Sequence[Plan]) -> tuple[Any, Any]:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=20))

    @app.task(name="run")  # type: ignore[untyped-decorator]
    async def run(number: int, timestamp: int = 0) -> None:
        started(number)

    for plan in plans:
        app.periodic_registry.register_task(
            task=run,
            cron=plan.cron,
            periodic_id=str(plan.number),
            configure_kwargs={"task_kwargs": {"number": plan.number}},
        )
    return app, run
