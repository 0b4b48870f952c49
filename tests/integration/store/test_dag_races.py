"""Joins that race on a real PostgreSQL: a child runs once, after its last parent, whoever ends which when."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from shardwheel.store.dag_hands import Hand, cancel_run, force_complete, skip_task
from shardwheel.store.requests import cancel_execution
from shardwheel.store.settle import settle
from shardwheel.wire import Outcome
from tests.integration.store.dag_race import Connection, Race, told

pytestmark = pytest.mark.servers

RUNS = 300
HAND = Hand("t", "somebody")


@pytest.fixture
def race(migrated_database: str) -> Iterator[Race]:
    race = Race(migrated_database)
    yield race
    race.conn.close()


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
