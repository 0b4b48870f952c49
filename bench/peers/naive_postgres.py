"""A table, an index on the due time, and a loop that asks once a second: what most teams write themselves.

`FOR UPDATE SKIP LOCKED`, batches of 500; a batch that comes full is followed by the next at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import psycopg

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer
from shardwheel.bench.peers.work import Once, Plan

_POLL_S: Final = 1.0
_BATCH: Final = 500
_TABLE: Final = b"""
CREATE TABLE IF NOT EXISTS naive_jobs
  (number bigint PRIMARY KEY, due_at timestamptz NOT NULL, period_s integer, done_at timestamptz);
CREATE INDEX IF NOT EXISTS naive_due ON naive_jobs (due_at) WHERE done_at IS NULL"""
_ADD: Final = b"COPY naive_jobs (number, due_at, period_s) FROM STDIN"
_TAKE: Final = b"""
SELECT number FROM naive_jobs WHERE done_at IS NULL AND due_at <= now()
 ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED"""
_DONE: Final = b"""
UPDATE naive_jobs SET due_at = due_at + make_interval(secs => coalesce(period_s, 0)),
       done_at = CASE WHEN period_s IS NULL THEN now() END
 WHERE number = ANY(%s)"""
_UNFINISHED: Final = b"SELECT count(*) FROM naive_jobs WHERE done_at IS NULL AND due_at <= now()"


class Poller(Peer):
    package = ""
    settings = "SKIP LOCKED, once a second, batches of 500, COPY to add, one worker"

    def create(self) -> None:
        with psycopg.connect(self.place.dsn) as connection:
            connection.execute(_TABLE)

    def serve(self, plans: Sequence[Plan]) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def add_once(self, jobs: Sequence[Once]) -> None:
        self._copy([(job.number, job.due_s, None) for job in jobs])

    def enqueue(self, numbers: Sequence[int]) -> None:
        now_s = time.time()
        self._copy([(number, now_s, None) for number in numbers])

    def add_recurring(self, plans: Sequence[Plan]) -> None:
        now_s = time.time()
        self._copy([(plan.number, plan.next_s(now_s), plan.period_s) for plan in plans])

    def _copy(self, rows: Sequence[tuple[int, float, int | None]]) -> None:
        with psycopg.connect(self.place.dsn) as connection, connection.cursor() as cursor:
            with cursor.copy(_ADD) as copy:
                for number, due_s, period_s in rows:
                    copy.write_row((number, _stamp(due_s), period_s))

    def unfinished(self) -> int:
        with psycopg.connect(self.place.dsn) as connection:
            ((count,),) = connection.execute(_UNFINISHED)
            return int(count)

    def _run(self) -> None:
        with psycopg.connect(self.place.dsn) as connection:
            while True:
                begun_s = time.monotonic()
                if self._batch(connection) < _BATCH:
                    time.sleep(max(0.0, _POLL_S - (time.monotonic() - begun_s)))

    def _batch(self, connection: psycopg.Connection[Any]) -> int:
        numbers = [number for (number,) in connection.execute(_TAKE, [_BATCH])]
        for number in numbers:
            started(number)
        connection.execute(_DONE, [numbers])
        connection.commit()
        return len(numbers)


def _stamp(time_s: float) -> str:
    whole, fraction = divmod(time_s, 1)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(whole)) + f"{fraction:.6f}"[1:] + "+00"
