"""Everybody at once on few jobs: claims, results, sweeps, people. Nobody may deadlock, and the limits hold.

What happens in which order is left to threads; what each of them wants comes from a seed. PostgreSQL tells of
a deadlock by an error, which fails the test; what must hold does not depend on the order.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest

from shardwheel.errors import UsageError
from shardwheel.execution import FIRST_PAGES, Claimed, ResultsStand
from shardwheel.ids import fire_id
from shardwheel.limits import Tally, TaskName
from shardwheel.posting import parse_posting
from shardwheel.store.claim import LEASES
from shardwheel.store.held import sweep_held, sweep_slots
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, delete_job, get_job, pause_job, resume_job
from shardwheel.store.requests import cancel_execution
from shardwheel.store.settle import settle
from shardwheel.store.sweep import sweep_lost
from shardwheel.store.tallies import tally
from shardwheel.store.task_types import limit_task, pause_task, resume_task
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome
from tests.integration.store.gate import Connection, claim_on, result_of

pytestmark = pytest.mark.servers
ALL = range(256)
ROUNDS = 200
PARTIES = 6
JOBS = 4
MOST_RUNNING = 3
RUNNING = "SELECT count(*) FROM shardwheel.executions WHERE state = 'running'"
OVERLAPPING = """
SELECT count(*) FROM (
  SELECT FROM shardwheel.executions AS x JOIN shardwheel.jobs AS j USING (job_id)
   WHERE x.state = 'running' AND j.overlap <> 'allow' GROUP BY job_id HAVING count(*) > 1) AS twice
"""


class Board:
    """What all parties know: the jobs, and what runs."""

    def __init__(self, conn: Connection) -> None:
        self.jobs = [create(conn, number) for number in range(JOBS)]
        self.running: list[Claimed] = []


def count(conn: Connection, statement: LiteralString) -> int:
    ((found,),) = conn.execute(statement)
    return int(found)


def create(conn: Connection, number: int) -> bytes:
    overlap = ("queue", "queue", "skip", "allow")[number % JOBS]
    (job_id,) = create_jobs(conn, "t", [parse_posting({"task": "work", "every": "1h", "overlap": overlap})])
    return job_id


class Party:
    """One who does things on a connection of its own, each in a transaction."""

    def __init__(self, dsn: str, board: Board, seed: int) -> None:
        self._dsn = dsn
        self._board = board
        self._random = random.Random(seed)
        self.did: Counter[str] = Counter()

    def live(self, begin: threading.Barrier) -> None:
        options = "-c deadlock_timeout=20ms -c lock_timeout=60s"
        with psycopg.connect(self._dsn, autocommit=True, options=options) as conn:
            begin.wait()
            for _ in range(ROUNDS):
                act = self._random.choice(self._acts)
                with conn.transaction():
                    with suppress(UsageError):
                        act(conn)
                    conn.execute(
                        "SELECT pg_sleep(0.01 * random())"
                    )  # The longer they hold, the more they meet.
                self.did[act.__name__] += 1
                assert count(conn, RUNNING) <= MOST_RUNNING
                assert count(conn, OVERLAPPING) == 0

    @property
    def _acts(self) -> list[Callable[[Connection], None]]:
        work = [self._claim, self._claim, self._claim, self._settle, self._settle, self._settle, self._sweep]
        return [*work, self._cancel, self._delete, self._steer_job, self._steer_task, self._tell]

    def _fire(self, conn: Connection) -> Fire:
        """Of one of a few times that all are at just now: as a shard or a sweep would publish it, or has."""
        job: JobRow = get_job(conn, "t", self._random.choice(self._board.jobs))
        at_ms = job.created_ms + self.did.total() // 8 + self._random.randrange(3)
        execution_id = fire_id(job.job_id, job.partition, at_ms)
        attempt = self._random.choice([1, 1, 2])
        head = (FORMAT_VERSION, FireKind.FIRE, execution_id, job.job_id, job.partition, job.schedule_no)
        return Fire(*head, scheduled_ms=at_ms, due_ms=at_ms, attempt=attempt)

    def _claim(self, conn: Connection) -> None:
        claimed = claim_on(conn, *(self._fire(conn) for _ in range(6))).claimed
        self._board.running = [*self._board.running, *claimed][-12:]

    def _settle(self, conn: Connection) -> None:
        running = self._board.running
        outcomes = [Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.FATAL, Outcome.RELEASED]
        some = self._random.sample(running, min(4, len(running)))
        settle(conn, [result_of(claimed, self._random.choice(outcomes)) for claimed in some])

    def _sweep(self, conn: Connection) -> None:
        sweep_lost(conn, ALL, ResultsStand("g", {}))
        sweep_held(conn, ALL, FIRST_PAGES)

    def _cancel(self, conn: Connection) -> None:
        cancel_execution(conn, "t", self._fire(conn).execution_id)

    def _delete(self, conn: Connection) -> None:
        """Its successor is seen by the others once this is committed; until then they find no such job."""
        if self._random.random() < 0.7:
            return
        number = self._random.randrange(JOBS)
        delete_job(conn, "t", self._board.jobs[number])
        self._board.jobs[number] = create(conn, number)

    def _steer_job(self, conn: Connection) -> None:
        change = self._random.choice([pause_job, resume_job, resume_job])
        change(conn, "t", self._random.choice(self._board.jobs))

    def _steer_task(self, conn: Connection) -> None:
        if self._random.random() < 0.3:
            pause_task(conn, "t", "work", "ada")
        else:
            resume_task(conn, "t", "work")

    def _tell(self, conn: Connection) -> None:
        failed = self._random.choice([0, 0, 20])
        tally(conn, {TaskName("t", "work"): Tally(20, failed, 20, 0)}, self._random.randrange(2))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and open breakers end within the test."""
    monkeypatch.setitem(LEASES, "short", timedelta(milliseconds=300))
    monkeypatch.setattr("shardwheel.store.tallies.BREAKER_OPEN_S", 0.05)


def test_nobody_deadlocks_and_the_limits_hold(migrated_database: str, hasty: None) -> None:
    begin = threading.Barrier(PARTIES)
    with psycopg.connect(migrated_database, autocommit=True) as conn, ThreadPoolExecutor(PARTIES) as threads:
        with conn.transaction():
            limit_task(conn, "t", "work", max_running=MOST_RUNNING, rate="1000/s")
        board = Board(conn)
        parties = [Party(migrated_database, board, seed) for seed in range(PARTIES)]
        for future in [threads.submit(party.live, begin) for party in parties]:
            future.result()
        assert sweep_slots(conn, ALL) == 0
        taken = "SELECT count(*) FROM shardwheel.task_slots WHERE slot_no > 0 AND execution_id IS NOT NULL"
        assert count(conn, taken) == count(conn, RUNNING)
        succeeded = "SELECT count(*) FROM shardwheel.executions WHERE state = 'succeeded'"
        assert count(conn, succeeded) > ROUNDS // 20
