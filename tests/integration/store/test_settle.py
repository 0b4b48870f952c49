"""Settling on real PostgreSQL: fenced by attempt and token, replayable, and in the claim's lock order."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from trio.testing import trio_test

from shardwheel.errors import RefusedError
from shardwheel.execution import Claimed, Settled
from shardwheel.limits import Tally, TaskName
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore
from shardwheel.store.requests import cancel_execution
from shardwheel.store.settle import settle
from shardwheel.wire import Outcome
from tests.integration.store.blocking import LIMIT_S, blocked
from tests.integration.store.gate import NOON_MS, Gate, claim_on, result_of

pytestmark = pytest.mark.servers


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    yield rig
    rig.close()


def claimed_fires(gate: Gate, count: int = 1) -> list[Claimed]:
    reply = gate.claim(*(gate.fire(NOON_MS + n) for n in range(count)))
    return sorted(reply.claimed)


def test_success_is_recorded_once_and_a_replay_changes_nothing(gate: Gate) -> None:
    (claimed,) = claimed_fires(gate)
    result = result_of(claimed, output=b'{"sent": 3}')
    assert gate.settle(result, result) == {"succeeded": 1}
    row = gate.row(claimed)
    assert row is not None and (row["state"], row["duration_ms"], row["output"]) == (
        "succeeded",
        40,
        {"sent": 3},
    )
    assert row["claim_token"] is None and row["lease_until"] is None and row["ended_at"] is not None
    assert gate.settle(result) == {}
    attempts = gate.conn.execute(
        "SELECT attempt, outcome, worker, slot_ms FROM shardwheel.attempts"
    ).fetchall()
    assert attempts == [(1, "succeeded", "w", 40)]


def test_a_result_of_another_attempt_or_token_changes_nothing(gate: Gate) -> None:
    (claimed,) = claimed_fires(gate)
    stale = [result_of(claimed, attempt=2), result_of(claimed, claim_token=uuid.uuid4().bytes)]
    assert gate.settle(*stale) == {}
    assert gate.settle(*(result_of(claimed, Outcome.FATAL, attempt=2), stale[1])) == {}
    assert gate.state(claimed) == ("running", None, 1)


def test_a_failure_waits_with_the_next_attempt_and_keeps_its_count(gate: Gate) -> None:
    claimed, other = claimed_fires(gate, 2)
    failed = result_of(claimed, Outcome.FAILED, error_class="ValueError", message="no", traceback="…")
    assert gate.settle(failed, result_of(other)) == {"retry_wait": 1, "succeeded": 1}
    row = gate.row(claimed)
    assert row is not None and (row["state"], row["attempt"], row["failures"]) == ("retry_wait", 2, 1)
    assert row["changed_xid"] is not None
    (again,) = gate.claim(gate.fire(NOON_MS, schedule_no=0, attempt=2)).claimed
    assert (again.attempt, again.failures) == (2, 1)
    assert gate.settle(failed) == {}
    assert gate.settle(result_of(again)) == {"succeeded": 1}
    row = gate.row(claimed)
    assert row is not None and row["failures"] == 1


def test_what_a_worker_gave_back_is_queued_without_a_failure(gate: Gate) -> None:
    (claimed,) = claimed_fires(gate)
    assert gate.settle(result_of(claimed, Outcome.RELEASED)) == {"queued": 1}
    row = gate.row(claimed)
    assert row is not None and (row["attempt"], row["failures"], row["reason"]) == (2, 0, "released")


def test_the_hopeless_leave_a_dead_letter_with_every_attempt(gate: Gate) -> None:
    gate.update(gate.job_id, max_retries=1, params='{"to": "a"}', name="mail")
    (claimed,) = claimed_fires(gate)
    gate.settle(result_of(claimed, Outcome.FAILED, message="first"))
    (again,) = gate.claim(gate.fire(NOON_MS, schedule_no=0, attempt=2)).claimed
    assert gate.settle(result_of(again, Outcome.FAILED, error_class="E", message="second")) == {"dead": 1}
    assert gate.state(claimed) == ("dead", "retries_exhausted", 2)
    row = gate.conn.execute(
        "SELECT task, params, job->>'name', reason, message, failures, attempts FROM shardwheel.dead_letters"
    ).fetchone()
    assert row is not None
    assert row[:6] == ("work", {"to": "a"}, "mail", "retries_exhausted", "second", 2)
    assert [attempt["message"] for attempt in row[6]] == ["first", "second"]


def test_time_outs_and_poison_are_read_from_the_attempts(gate: Gate) -> None:
    gate.update(gate.job_id, max_retries=10)
    (claimed,) = claimed_fires(gate)
    assert gate.settle(result_of(claimed, Outcome.TIMED_OUT)) == {"retry_wait": 1}
    (again,) = gate.claim(gate.fire(NOON_MS, schedule_no=0, attempt=2)).claimed
    assert gate.settle(result_of(again, Outcome.TIMED_OUT)) == {"dead": 1}
    assert gate.state(claimed) == ("dead", "timed_out", 2)

    now_ms = gate.conn.execute("SELECT shardwheel.now_ms()").fetchone()
    assert now_ms is not None
    fire = gate.fire(NOON_MS + 5)
    for attempt, state in ((1, "retry_wait"), (2, "retry_wait"), (3, "dead")):
        number = gate.schedule_no() if attempt == 1 else 0
        (running,) = gate.claim(gate.fire(NOON_MS + 5, schedule_no=number, attempt=attempt)).claimed
        moments = {"started_ms": now_ms[0], "ended_ms": now_ms[0] + attempt}
        assert gate.settle(result_of(running, Outcome.FAILED, **moments)) == {state: 1}
    assert gate.state(fire) == ("dead", "poison", 3)


def test_settle_and_claim_of_the_same_rows_in_opposite_order_do_not_deadlock(gate: Gate) -> None:
    running = claimed_fires(gate, 10)
    fires = [gate.fire(NOON_MS + n) for n in range(10)]
    with gate.connect() as processor:
        settle(processor, [result_of(claimed) for claimed in running[5:]])
        with blocked(gate.dsn, lambda conn: claim_on(conn, *reversed(fires))) as step:
            settle(processor, [result_of(claimed, Outcome.FAILED) for claimed in running[5:]])
            processor.commit()
            assert step.result(LIMIT_S).claimed == []
    assert gate.settle(*(result_of(claimed) for claimed in reversed(running[:5]))) == {"succeeded": 5}


def test_two_processors_with_the_same_results_settle_them_once(gate: Gate) -> None:
    running = claimed_fires(gate, 6)
    results = [result_of(claimed) for claimed in running]

    with gate.connect() as first:
        settle(first, results)
        with blocked(gate.dsn, lambda conn: settle(conn, list(reversed(results)))) as step:
            first.commit()
            assert step.result(LIMIT_S) == Settled({}, 6, {})
    assert gate.conn.execute("SELECT count(*) FROM shardwheel.attempts").fetchone() == (6,)


def test_a_late_result_meets_a_sweep_that_put_the_execution_back(gate: Gate) -> None:
    (claimed,) = claimed_fires(gate)
    with gate.connect() as sweep:
        sweep.execute("UPDATE shardwheel.executions SET state = 'queued', attempt = 2, claim_token = NULL")
        with blocked(gate.dsn, lambda conn: settle(conn, [result_of(claimed)])) as step:
            sweep.commit()
            assert step.result(LIMIT_S) == Settled({}, 1, {})
    assert gate.state(claimed) == ("queued", None, 2)


def test_what_was_asked_to_stop_gets_no_other_attempt(gate: Gate) -> None:
    """However its attempt ends: given back, failed, or with its worker."""
    for place, outcome in enumerate((Outcome.RELEASED, Outcome.FAILED)):
        (claimed,) = gate.claim(gate.fire(NOON_MS + place)).claimed
        assert cancel_execution(gate.conn, "t", claimed.execution_id) == "already_running"
        assert gate.settle(result_of(claimed, outcome)) == {"cancelled": 1}
        assert gate.state(claimed) == ("cancelled", "cancelled", 1)


def test_a_stale_result_beside_the_current_one_is_not_counted(gate: Gate) -> None:
    (first,) = claimed_fires(gate)
    gate.settle(result_of(first, Outcome.RELEASED))
    (second,) = gate.claim(gate.fire(NOON_MS, attempt=2)).claimed
    told = {"tenant_id": "t", "task": "work"}
    with gate.conn.transaction():
        settled = settle(
            gate.conn,
            [result_of(second, Outcome.SUCCEEDED, **told), result_of(first, Outcome.FAILED, **told)],
        )
    assert (settled.by_state, settled.stale) == ({"succeeded": 1}, 1)
    assert settled.tallies == {TaskName("t", "work"): Tally(runs=1)}


@pytest.mark.parametrize("fields", [{"output": b"{"}, {"output": b"\xff"}, {"ended_ms": 10**17}])
@trio_test
async def test_a_result_that_can_not_be_stored_is_refused_by_name(gate: Gate, fields: dict[str, Any]) -> None:
    good, bad = claimed_fires(gate, 2)
    async with Pool(gate.dsn, name="results", size=1) as pool:
        store = PostgresStore(pool)
        with pytest.raises(RefusedError):
            await store.settle([result_of(good), result_of(bad, **fields)])
        assert (await store.settle([result_of(good)])).by_state == {"succeeded": 1}
    assert gate.state(bad) == ("running", None, 1)
