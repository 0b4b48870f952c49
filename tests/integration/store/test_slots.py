"""Slots on real PostgreSQL: each interleaving of those who take them, give them back and hand them on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardwheel.execution import FIRST_PAGES, Claimed
from shardwheel.store.held import sweep_held, sweep_slots
from shardwheel.store.settle import settle
from shardwheel.store.task_types import limit_task, pause_task
from shardwheel.wire import Fire
from tests.integration.store.blocking import LIMIT_S, blocked
from tests.integration.store.gate import NOON_MS, Connection, Gate, claim_on, result_of

pytestmark = pytest.mark.servers
ALL = range(256)
HELD = ("held", "overlap", 1)


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    yield rig
    rig.close()


@pytest.fixture
def queue(gate: Gate) -> Gate:
    """Its job queues what would overlap."""
    gate.update(gate.job_id, overlap="queue")
    return gate


def limit(gate: Gate, max_running: int) -> None:
    with gate.conn.transaction():
        limit_task(gate.conn, "t", "work", max_running=max_running)


def running(gate: Gate, at_ms: int = NOON_MS) -> Claimed:
    (claimed,) = gate.claim(gate.fire(at_ms)).claimed
    return claimed


def taken(gate: Gate) -> int:
    row = gate.conn.execute(
        "SELECT count(*) FROM shardwheel.task_slots WHERE execution_id IS NOT NULL"
    ).fetchone()
    assert row is not None
    return int(row[0])


# --- slots of a job -----------------------------------------------------------------------------------


@pytest.mark.parametrize("first_commits", [True, False])
def test_of_two_claims_at_once_one_gets_the_jobs_slot(queue: Gate, first_commits: bool) -> None:
    early, late = queue.fire(), queue.fire(NOON_MS + 1)
    with queue.connect() as first:
        claim_on(first, early)
        with blocked(queue.dsn, lambda conn: claim_on(conn, late)) as step:
            if first_commits:
                first.commit()
            else:
                first.rollback()
            reply = step.result(LIMIT_S)
    assert len(reply.claimed) == (0 if first_commits else 1)
    assert queue.state(late) == (HELD if first_commits else ("running", None, 1))


def test_a_claim_waits_for_a_settling_that_gives_the_slot_back(queue: Gate) -> None:
    first, later = running(queue), queue.fire(NOON_MS + 1)
    with queue.connect() as results:
        settle(results, [result_of(first)])
        with blocked(queue.dsn, lambda conn: claim_on(conn, later)) as step:
            results.commit()
            assert len(step.result(LIMIT_S).claimed) == 1


def test_a_claim_that_waits_for_a_slot_finds_it_handed_on(queue: Gate) -> None:
    first, oldest, newest = running(queue), queue.fire(NOON_MS + 1), queue.fire(NOON_MS + 2)
    queue.claim(oldest)
    with queue.connect() as results:
        settle(results, [result_of(first)])
        with blocked(queue.dsn, lambda conn: claim_on(conn, newest)) as step:
            results.commit()
            assert step.result(LIMIT_S).claimed == []
    assert queue.state(oldest) == ("queued", None, 1)
    assert queue.state(newest) == HELD


def test_what_is_held_while_the_slot_comes_free_is_found_by_the_sweep(queue: Gate) -> None:
    first, later = running(queue), queue.fire(NOON_MS + 1)
    with queue.connect() as worker:
        claim_on(worker, later)
        queue.settle(result_of(first))
        worker.commit()
    assert queue.state(later) == HELD
    sweep_held(queue.conn, ALL, FIRST_PAGES)
    assert queue.state(later) == ("queued", None, 1)
    assert len(queue.claim(later).claimed) == 1


def test_a_sweep_that_hands_on_and_claims_wait_for_each_other(queue: Gate) -> None:
    first, held, later = running(queue), queue.fire(NOON_MS + 1), queue.fire(NOON_MS + 2)
    with queue.connect() as worker:
        claim_on(worker, held)
        queue.settle(result_of(first))
        worker.commit()
    with queue.connect() as sweep:
        sweep_held(sweep, ALL, FIRST_PAGES)
        with (
            blocked(queue.dsn, lambda conn: claim_on(conn, later)) as other,
            blocked(queue.dsn, lambda conn: claim_on(conn, held)) as same,
        ):
            sweep.commit()
            assert len(same.result(LIMIT_S).claimed) == 1
            assert other.result(LIMIT_S).claimed == []
    assert queue.state(later) == HELD


def test_a_sweep_waits_for_a_claim_that_takes_the_slot(queue: Gate) -> None:
    first, held, later = running(queue), queue.fire(NOON_MS + 1), queue.fire(NOON_MS + 2)
    with queue.connect() as worker:
        claim_on(worker, held)
        queue.settle(result_of(first))
        worker.commit()
        assert len(claim_on(worker, later).claimed) == 1
        with blocked(queue.dsn, lambda conn: sweep_held(conn, ALL, FIRST_PAGES)) as step:
            worker.commit()
            step.result(LIMIT_S)
    assert queue.state(held) == HELD


def test_a_settling_does_not_wait_for_a_claim_that_looks_at_what_is_held(queue: Gate) -> None:
    first, held = running(queue), queue.fire(NOON_MS + 1)
    queue.claim(held)
    with queue.connect() as worker:
        assert claim_on(worker, held).duplicates == 1
        queue.conn.execute("SET lock_timeout = '1s'")  # They would wait for each other if that claimed more.
        assert queue.settle(result_of(first)) == {"succeeded": 1}
        worker.commit()
    sweep_held(queue.conn, ALL, FIRST_PAGES)
    assert queue.state(held) == ("queued", None, 1)


# --- slots of a task ----------------------------------------------------------------------------------


def test_a_claim_does_not_wait_for_a_tasks_slot(gate: Gate) -> None:
    limit(gate, 1)
    first, later = running(gate), gate.fire(NOON_MS + 1)
    with gate.connect() as results:
        settle(results, [result_of(first)])
        assert gate.claim(later).recorded == {("held", "concurrency"): 1}
        results.commit()
    sweep_held(gate.conn, ALL, FIRST_PAGES)
    assert len(gate.claim(later).claimed) == 1
    assert taken(gate) == 1


def test_two_claims_at_once_never_share_a_slot(gate: Gate) -> None:
    limit(gate, 3)
    with gate.connect() as first, gate.connect() as second:
        early = claim_on(first, gate.fire(NOON_MS), gate.fire(NOON_MS + 1))
        late = claim_on(second, gate.fire(NOON_MS + 2), gate.fire(NOON_MS + 3))
        first.commit()
        second.commit()
    assert (len(early.claimed), len(late.claimed), taken(gate)) == (2, 1, 3)


@pytest.mark.parametrize("overlap", ["allow", "queue"])
def test_a_fire_that_two_workers_claim_takes_one_slot(gate: Gate, overlap: str) -> None:
    gate.update(gate.job_id, overlap=overlap)
    limit(gate, 3)
    fire = gate.fire()
    with gate.connect() as first:
        claim_on(first, fire)
        with blocked(gate.dsn, lambda conn: claim_on(conn, fire)) as step:
            first.commit()
            assert step.result(LIMIT_S).claimed == []
    assert taken(gate) == 1


def test_a_claim_in_vain_that_ends_after_the_run_leaves_no_slot_behind(gate: Gate) -> None:
    gate.update(gate.job_id, overlap="queue")
    limit(gate, 3)
    fire = gate.fire()
    with gate.connect() as people:
        # The second claim has its snapshot, and waits for the job's row until the run is over.
        people.execute("SELECT FROM shardwheel.jobs FOR NO KEY UPDATE")
        with blocked(gate.dsn, lambda conn: claim_on(conn, fire)) as step:
            stored = gate.waiting(fire.scheduled_ms)
            gate.conn.execute("UPDATE shardwheel.executions SET state = 'succeeded'")
            people.commit()
            assert step.result(LIMIT_S).claimed == []
    assert gate.state(stored) == ("succeeded", None, 1)
    assert taken(gate) == 0
    assert sweep_slots(gate.conn, ALL) == 0


def test_a_smaller_limit_waits_for_claims_and_lets_what_runs_run_on(gate: Gate) -> None:
    limit(gate, 2)
    with gate.connect() as worker:
        claimed = claim_on(worker, gate.fire(NOON_MS), gate.fire(NOON_MS + 1)).claimed
        with blocked(gate.dsn, lambda conn: limit_task(conn, "t", "work", max_running=1)) as step:
            worker.commit()
            assert step.result(LIMIT_S).slots_taken == 2
    gate.settle(result_of(max(claimed)))
    assert gate.claim(gate.fire(NOON_MS + 2)).recorded == {("held", "concurrency"): 1}
    gate.settle(result_of(min(claimed)))
    assert len(gate.claim(gate.fire(NOON_MS + 3)).claimed) == 1


# --- pauses of a task ---------------------------------------------------------------------------------


def pause(conn: Connection) -> None:
    with conn.transaction():
        pause_task(conn, "t", "work", "ada")


@pytest.mark.parametrize("known", [True, False])
def test_a_claim_waits_for_a_pause_of_its_task_and_obeys_it(gate: Gate, known: bool) -> None:
    if known:
        limit(gate, 3)
    fire = gate.fire()
    with gate.connect() as people:
        pause_task(people, "t", "work", "ada")
        with blocked(gate.dsn, lambda conn: claim_on(conn, fire)) as step:
            people.commit()
            assert step.result(LIMIT_S).recorded == {("held", "task_paused"): 1}


@pytest.mark.parametrize("known", [True, False])
def test_a_pause_of_a_task_waits_for_a_claim_that_is_under_way(gate: Gate, known: bool) -> None:
    if known:
        limit(gate, 3)
    fire: Fire = gate.fire()
    with gate.connect() as worker:
        claim_on(worker, fire)
        with blocked(gate.dsn, pause) as step:
            worker.commit()
            step.result(LIMIT_S)
    assert gate.state(fire) == ("running", None, 1)
