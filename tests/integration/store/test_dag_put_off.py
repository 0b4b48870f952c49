"""Ends that are put off, on a real PostgreSQL: several put off, tell, and do things to the same runs at once;
some die in the middle. A child still runs once, after its last parent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from trio.testing import trio_test

from shardwheel.errors import RefusedError
from shardwheel.execution import Claimed
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_hands import Hand, cancel_run, force_complete
from shardwheel.store.dag_put_off import runs_put_off, tell_runs
from shardwheel.store.dag_sweep import sweep_runs
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore
from shardwheel.store.settle import settle
from shardwheel.store.sql import sql
from shardwheel.wire import Outcome
from tests.integration.store.blocking import blocked
from tests.integration.store.dag_race import Connection, Race, told

pytestmark = pytest.mark.servers

RUNS = 120
BATCH = 6
FIRST = bytes(16)
HAND = Hand("t", "somebody")
Work = Callable[[Connection, threading.Barrier], None]


@pytest.fixture
def race(migrated_database: str) -> Iterator[Race]:
    race = Race(migrated_database)
    yield race
    race.conn.close()


def catch_up(conn: Connection, most: int = 500) -> int:
    ends = 0
    while run_ids := runs_put_off(conn, FIRST, most=most):
        with conn.transaction():
            ends += tell_runs(conn, run_ids, most=most).ends
    return ends


def settling(pairs: list[tuple[Claimed, Claimed]], side: int, put_off: Callable[[int], bool]) -> Work:
    def work(conn: Connection, barrier: threading.Barrier) -> None:
        for first in range(0, RUNS, BATCH):
            barrier.wait()
            with conn.transaction():
                results = [told(pair[side]) for pair in pairs[first : first + BATCH]]
                settle(conn, results, put_off=put_off(first // BATCH))

    return work


def telling(conn: Connection, barrier: threading.Barrier) -> None:
    for _ in range(0, RUNS, BATCH):
        barrier.wait()
        catch_up(conn, most=5)


def figures(conn: Connection) -> list[tuple[str, int, int]]:
    return conn.execute(
        "SELECT DISTINCT state, unfinished, succeeded FROM shardwheel.dag_runs ORDER BY 1"
    ).fetchall()


def test_while_ends_are_put_off_no_run_is_locked(race: Race) -> None:
    pairs = race.start(3)
    results = [told(one) for pair in pairs for one in pair]
    with psycopg.connect(race.dsn) as holder:
        holder.execute("SELECT FROM shardwheel.dag_runs FOR UPDATE")
        race.conn.execute("SET lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable), race.conn.transaction():
            settle(race.conn, results)
        with race.conn.transaction():
            assert settle(race.conn, results, put_off=True).put_off == 6
    assert race.joined() == []
    assert catch_up(race.conn) == 6
    assert race.joined() == [("queued", 3)]


def test_two_that_put_off_and_two_that_tell_join_once(race: Race) -> None:
    """One of them puts everything off, the other every second batch; both tell whatever they find."""
    pairs = race.start(RUNS)
    race.at_once(
        settling(pairs, 0, lambda _: True), settling(pairs, 1, lambda batch: batch % 2 == 0), telling, telling
    )
    catch_up(race.conn)
    assert race.joined() == [("queued", RUNS)]
    assert figures(race.conn) == [("running", 1, 3)]


def test_hands_and_sweeps_that_race_with_what_is_put_off_count_once(race: Race) -> None:
    pairs = race.start(RUNS)

    def hands(conn: Connection, barrier: threading.Barrier) -> None:
        for first in range(0, RUNS, BATCH):
            barrier.wait()
            for _, c in pairs[first : first + BATCH]:
                with conn.transaction():
                    force_complete(conn, HAND, c.dag_run_id, "c")
                with conn.transaction():
                    sweep_runs(conn, [race.dag.job.partition])

    race.at_once(settling(pairs, 0, lambda _: True), hands, telling)
    catch_up(race.conn)
    assert race.joined() == [("queued", RUNS)]
    assert figures(race.conn) == [("running", 1, 3)]


def test_a_hand_that_waits_for_a_settling_finds_what_that_put_off(race: Race) -> None:
    """The hand holds the run, the settling the task: the end is there once the hand may go on."""
    ((b, c),) = race.start(1)
    with race.conn.transaction():
        settle(race.conn, [told(b)])

    def complete(conn: Connection) -> bool:
        with conn.transaction():
            return force_complete(conn, HAND, c.dag_run_id, "c").changed

    with psycopg.connect(race.dsn) as settler:
        settle(settler, [told(c, Outcome.FATAL)], put_off=True)
        with blocked(race.dsn, complete) as hand:
            settler.commit()
        assert hand.result()
    assert catch_up(race.conn) == 0
    assert race.joined() == [("queued", 1)]
    assert figures(race.conn) == [("running", 1, 3)]


def test_a_cancel_that_races_with_a_retry_that_was_put_off_leaves_nobody_waiting(race: Race) -> None:
    """A settling that puts off does not wait for whoever holds the run: what ran may wait again by then."""
    pairs = race.start(RUNS)

    def retries(conn: Connection, barrier: threading.Barrier) -> None:
        for pair in pairs:
            barrier.wait()
            with conn.transaction():
                settle(conn, [told(one, Outcome.RELEASED) for one in pair], put_off=True)

    def cancels(conn: Connection, barrier: threading.Barrier) -> None:
        for _, c in pairs:
            barrier.wait()
            with conn.transaction():
                cancel_run(conn, HAND, c.dag_run_id)

    race.at_once(retries, cancels)
    catch_up(race.conn)
    assert figures(race.conn) == [("cancelled", 0, 1)]
    ((waiting,),) = race.conn.execute("SELECT count(*) FROM shardwheel.executions WHERE pending IS NOT NULL")
    assert waiting == 0


def test_what_a_cancel_has_looked_at_is_not_tried_again_behind_its_back(race: Race) -> None:
    """Between two statements of a cancel somebody tries to put c back, and the next one to claim it."""
    ((b, c),) = race.start(1)
    with race.conn.transaction():
        settle(race.conn, [told(b)])
    meanwhile: list[Callable[[], object]] = [lambda: race.claim(race.waiting()), lambda: give_back(race, c)]

    class Interrupted(psycopg.Connection[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
            found = super().execute(query, params, **options)
            if meanwhile and query in (sql("dag_stop"), sql("dag_ask_to_stop")):
                with suppress(psycopg.errors.LockNotAvailable):
                    meanwhile.pop()()
            return found

    race.conn.execute("SET lock_timeout = '200ms'")
    with Interrupted.connect(race.dsn) as conn:
        cancel_run(conn, HAND, c.dag_run_id)
    unasked = race.conn.execute(
        "SELECT state FROM shardwheel.executions WHERE dag_run_id = %s AND cancel_requested_at IS NULL"
        " AND (pending IS NOT NULL OR state = 'running')",
        [Uuid(c.dag_run_id)],
    )
    assert unasked.fetchall() == []


def give_back(race: Race, one: Claimed) -> None:
    with race.conn.transaction():
        settle(race.conn, [told(one, Outcome.RELEASED)], put_off=True)


def test_whoever_dies_between_putting_off_and_telling_leaves_it_to_the_next(race: Race) -> None:
    pairs = race.start(3)
    dying = psycopg.connect(race.dsn)
    settle(dying, [told(b) for b, _ in pairs], put_off=True)
    dying.close()  # Before its commit: nothing of it happened, and its batch comes again.
    assert runs_put_off(race.conn, FIRST) == []
    with race.conn.transaction():
        settle(race.conn, [told(one) for pair in pairs for one in pair], put_off=True)
    dying = psycopg.connect(race.dsn)
    assert tell_runs(dying, runs_put_off(dying, FIRST)).ends == 6
    dying.close()
    assert (race.joined(), figures(race.conn)) == ([], [("running", 3, 1)])
    assert catch_up(race.conn) == 6
    assert race.joined() == [("queued", 3)]


@trio_test
async def test_a_sweep_is_refused_a_run_by_name(race: Race) -> None:
    """So that its shard knows that it need not try at once again, nor end."""
    pairs = race.start(1)
    with race.conn.transaction():
        settle(race.conn, [told(one) for pair in pairs for one in pair], put_off=True)
    race.conn.execute("UPDATE shardwheel.dag_put_off SET put_off_at = put_off_at - interval '1 hour'")
    race.conn.execute("ALTER TABLE shardwheel.dag_counters ADD CONSTRAINT none CHECK (false) NOT VALID")
    async with Pool(race.dsn, name="shard", size=1) as pool:
        store = PostgresStore(pool)
        with pytest.raises(RefusedError):
            await store.sweep_put_off([race.dag.job.partition])
        race.conn.execute("ALTER TABLE shardwheel.dag_counters DROP CONSTRAINT none")
        assert race.dag.job.partition in (await store.sweep_put_off([race.dag.job.partition])).queued
    assert race.joined() == [("queued", 1)]
