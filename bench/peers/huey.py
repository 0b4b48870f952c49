"""Huey on PostgreSQL: threads that wait for NOTIFY, and its scheduler once a second (it takes nothing less).

Its recurring tasks are code, by the minute, looked at once a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import psycopg

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer, Place
from shardwheel.bench.peers.work import Once, Plan

_WORKERS = 8


class InPostgres(Peer):
    package = "huey"
    settings = "PostgresHuey, 8 threads, scheduler each second, results not kept"
    declares = True
    by_minutes = True

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        from huey import PostgresHuey

        self._huey = PostgresHuey("bench", dsn=place.dsn, results=False, utc=False)

        @self._huey.task(name="run")  # type: ignore[untyped-decorator]
        def run(number: int) -> None:
            started(number)

        self._run = run

    def serve(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            self._huey.periodic_task(_crontab(plan), name=f"plan-{plan.number}")(_recurring(plan.number))
        consumer = self._huey.create_consumer(
            workers=_WORKERS, scheduler_interval=1, check_worker_health=False
        )
        # Signals are the host's.
        consumer._set_signal_handlers = lambda: None
        threading.Thread(target=consumer.run, daemon=True).start()

    def add_once(self, jobs: Sequence[Once]) -> None:
        for job in jobs:
            self._run.schedule(args=(job.number,), eta=datetime.fromtimestamp(job.due_s))

    def enqueue(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._run(number)

    def unfinished(self) -> int:
        with psycopg.connect(self.place.dsn) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM huey_task")
            return int(count)


def _crontab(plan: Plan) -> Any:
    from huey import crontab

    return crontab(minute=plan.minutes)


def _recurring(number: int) -> Any:
    def run() -> None:
        started(number)

    return run
