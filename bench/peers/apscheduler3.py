"""APScheduler 3, in memory and on PostgreSQL: the scheduler with the asyncio executor, its quickest way to
run a no-op, and no job ever given up as misfired. It has no call that adds many jobs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer
from shardwheel.bench.peers.work import Once, Plan

_LIMIT_S = 600


async def run(number: int) -> None:
    started(number)


class _Both(Peer):
    package = "apscheduler"
    inside = True

    def store(self) -> Any:
        raise NotImplementedError

    def serve(self, plans: Sequence[Plan]) -> None:
        from apscheduler.schedulers.asyncio import AsyncIOScheduler

        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

        async def start() -> Any:
            defaults = {"misfire_grace_time": None, "coalesce": True, "max_instances": 1_000}
            scheduler = AsyncIOScheduler(
                jobstores={"default": self.store()}, job_defaults=defaults, timezone=UTC
            )
            scheduler.start()
            return scheduler

        self._scheduler = asyncio.run_coroutine_threadsafe(start(), self._loop).result(_LIMIT_S)

    def add_once(self, jobs: Sequence[Once]) -> None:
        from apscheduler.triggers.date import DateTrigger

        for job in jobs:
            self._scheduler.add_job(run, DateTrigger(datetime.fromtimestamp(job.due_s, UTC)), [job.number])

    def enqueue(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._scheduler.add_job(run, args=[number])

    def add_recurring(self, plans: Sequence[Plan]) -> None:
        from apscheduler.triggers.interval import IntervalTrigger

        for plan in plans:
            first = datetime.fromtimestamp(plan.phase_s, UTC)
            trigger = IntervalTrigger(seconds=plan.period_s, start_date=first, timezone=UTC)
            self._scheduler.add_job(run, trigger, [plan.number])

    def close(self) -> None:
        if hasattr(self, "_scheduler"):
            shut: Callable[[bool], None] = self._scheduler.shutdown
            self._loop.call_soon_threadsafe(shut, False)


class InMemory(_Both):
    settings = "AsyncIOScheduler, memory store, coroutines, no misfire grace"
    cannot: ClassVar = {"restart": "the memory store keeps nothing"}
    durable = False

    def store(self) -> Any:
        from apscheduler.jobstores.memory import MemoryJobStore

        return MemoryJobStore()


class InPostgres(_Both):
    settings = "AsyncIOScheduler, SQLAlchemyJobStore on psycopg 3, coroutines, no misfire grace"

    def store(self) -> Any:
        from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

        return SQLAlchemyJobStore(url=self.place.dsn.replace("postgresql:", "postgresql+psycopg:", 1))
