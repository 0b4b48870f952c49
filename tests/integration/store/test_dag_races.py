"""Joins that race on a real PostgreSQL: a child runs once, after its last parent, whoever ends which when."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from shardwheel.execution import Claimant, Claimed
from shardwheel.ids import fire_id
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.claim import claim
from shardwheel.store.dag_hands import Hand, cancel_run, force_complete, skip_task
from shardwheel.store.jobs import create_jobs, get_job
from shardwheel.store.requests import cancel_execution
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome
from tests.contract.dag_scene import Dag, Shape, plant_rows
from tests.integration.store.gate import result_of

pytestmark = pytest.mark.servers

DIAMOND = Shape({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}, policy="continue")
RUNS = 300
HAND = Hand("t", "somebody")
Connection = psycopg.Connection[Any]


class Race:
    """Many runs of one diamond, whose b and c run."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)
        with self.conn.transaction():
            posting = parse_posting({"task": "work", "every": "1h"})
            dag_id, *tasks = create_jobs(self.conn, "t", [posting, *[parse_posting({"task": "work"})] * 4])
            job = get_job(self.conn, "t", dag_id)
            self.dag = Dag(job, dict(zip(DIAMOND.parents, tasks, strict=True)))
            plant_rows(self.conn, self.dag, DIAMOND)

    def start(self, runs: int) -> list[tuple[Claimed, Claimed]]:
        """The b and c of each run, in the order of their runs."""
        job = self.dag.job
        times = [job.effective_from_ms + number * 3_600_000 for number in range(runs)]
        ids = [fire_id(job.job_id, job.partition, at_ms) for at_ms in times]
        self._claim(
            [
                self._fire(one, job.job_id, at_ms, job.schedule_no)
                for one, at_ms in zip(ids, times, strict=True)
            ]
        )
        first = self._claim(self._waiting())
        with self.conn.transaction():
            settle(self.conn, [result_of(one, dag_run_id=one.dag_run_id) for one in first])
        pairs: dict[bytes, dict[str, Claimed]] = {}
        for one in self._claim(self._waiting()):
            pairs.setdefault(one.dag_run_id, {})[self.dag.keys[one.job_id]] = one
        return [(pair["b"], pair["c"]) for _, pair in sorted(pairs.items())]

    def _claim(self, fires: Sequence[Fire]) -> list[Claimed]:
        claimant = Claimant("w", "short", frozenset({"work"}), uuid.uuid4().bytes)
        with self.conn.transaction():
            return claim(self.conn, [(fire, 2) for fire in fires], claimant).claimed

    def _waiting(self) -> list[Fire]:
        rows = self.conn.execute("SELECT execution_id, job_id, scheduled_ms FROM shardwheel.waiting_entries")
        return [self._fire(execution_id, job_id, at_ms, 0) for execution_id, job_id, at_ms in rows]

    def _fire(self, execution_id: bytes, job_id: bytes, at_ms: int, schedule_no: int) -> Fire:
        head = (FORMAT_VERSION, FireKind.FIRE, execution_id, job_id, self.dag.job.partition)
        return Fire(*head, schedule_no, at_ms, at_ms, 1)

    def at_once(self, *works: Callable[[Connection, threading.Barrier], None]) -> None:
        """Each on a connection of its own; the barrier lets them meet before each step."""
        barrier = threading.Barrier(len(works), timeout=60)

        def work(one: Callable[[Connection, threading.Barrier], None]) -> None:
            with psycopg.connect(self.dsn, autocommit=True) as conn:
                one(conn, barrier)

        with ThreadPoolExecutor(len(works)) as threads:
            for future in [threads.submit(work, one) for one in works]:
                future.result()

    def joined(self) -> list[tuple[str, int]]:
        """The states of d, with how many runs have it so."""
        return self.conn.execute(
            "SELECT coalesce(x.reason, x.state), count(*)::int FROM shardwheel.executions AS x"
            " WHERE x.job_id = %s GROUP BY 1 ORDER BY 1",
            [Uuid(self.dag.tasks["d"])],
        ).fetchall()


@pytest.fixture
def race(migrated_database: str) -> Iterator[Race]:
    race = Race(migrated_database)
    yield race
    race.conn.close()


def told(one: Claimed, outcome: Outcome = Outcome.SUCCEEDED) -> Any:
    return result_of(one, outcome, dag_run_id=one.dag_run_id)


@pytest.mark.parametrize("batch", [1, 20])
def test_racing_parents_in_different_batches_join_once(race: Race, batch: int) -> None:
    pairs = race.start(RUNS)
    assert len(pairs) == RUNS

    def settling(side: int) -> Callable[[Connection, threading.Barrier], None]:
        def work(conn: Connection, barrier: threading.Barrier) -> None:
            for first in range(0, RUNS, batch):
                results = [told(pair[side]) for pair in pairs[first : first + batch]]
                barrier.wait()
                with conn.transaction():
                    # One of them the other way round: locks are taken in key order all the same.
                    settle(conn, results if side else results[::-1])

        return work

    race.at_once(settling(0), settling(1))
    assert race.joined() == [("queued", RUNS)]


def test_parents_in_one_batch_join_once(race: Race) -> None:
    pairs = race.start(RUNS)
    with race.conn.transaction():
        settled = settle(race.conn, [told(one) for pair in pairs for one in pair])
    assert settled.by_state == {"succeeded": 2 * RUNS}
    assert race.joined() == [("queued", RUNS)]


def test_parents_that_end_by_different_ways_join_once(race: Race) -> None:
    """A result against a hand; who comes second finds what the first one counted, or has nothing to end."""
    pairs = race.start(RUNS)

    def results(conn: Connection, barrier: threading.Barrier) -> None:
        for b, _ in pairs:
            barrier.wait()
            with conn.transaction():
                settle(conn, [told(b)])

    def hands(conn: Connection, barrier: threading.Barrier) -> None:
        for number, (_, c) in enumerate(pairs):
            barrier.wait()
            with conn.transaction():
                if number % 3 == 0:
                    force_complete(conn, HAND, c.dag_run_id, "c")
                elif number % 3 == 1:
                    skip_task(conn, HAND, c.dag_run_id, "c", "skip")
                else:
                    settle(conn, [told(c, Outcome.FATAL)])

    race.at_once(results, hands)
    third = RUNS // 3
    assert race.joined() == [("queued", third), ("upstream_failed", third), ("upstream_skipped", third)]


def test_a_cancel_that_races_with_the_last_parent_leaves_nobody_queued(race: Race) -> None:
    pairs = race.start(RUNS)
    with race.conn.transaction():
        settle(race.conn, [told(b) for b, _ in pairs])

    def results(conn: Connection, barrier: threading.Barrier) -> None:
        for _, c in pairs:
            barrier.wait()
            with conn.transaction():
                settle(conn, [told(c)])

    def cancels(conn: Connection, barrier: threading.Barrier) -> None:
        for _, c in pairs:
            barrier.wait()
            with conn.transaction():
                cancel_run(conn, HAND, c.dag_run_id)

    race.at_once(results, cancels)
    assert race.joined() == [("cancelled", RUNS)]
    ends = race.conn.execute("SELECT DISTINCT state, unfinished FROM shardwheel.dag_runs").fetchall()
    assert ends == [("cancelled", 0)]


def test_a_task_cancelled_while_its_run_goes_on_is_counted_once(race: Race) -> None:
    pairs = race.start(RUNS // 3)
    with race.conn.transaction():
        settle(race.conn, [told(one, Outcome.RELEASED) for pair in pairs for one in pair])

    def cancels(side: int) -> Callable[[Connection, threading.Barrier], None]:
        def work(conn: Connection, barrier: threading.Barrier) -> None:
            for pair in pairs:
                barrier.wait()
                with conn.transaction():
                    assert cancel_execution(conn, "t", pair[side].execution_id) == "cancelled"

        return work

    race.at_once(cancels(0), cancels(1))
    assert race.joined() == [("upstream_failed", len(pairs))]
    ends = race.conn.execute("SELECT DISTINCT state, failed, skipped FROM shardwheel.dag_runs").fetchall()
    assert ends == [("partial", 2, 1)]
