"""The claim on real PostgreSQL: who may run, and every interleaving that once lost or doubled a run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from shardwheel.store.arrays import Uuid
from shardwheel.store.claim import claimed_by
from shardwheel.wire import FireKind
from tests.integration.store.blocking import LIMIT_S, blocked
from tests.integration.store.gate import NOON_MS, Gate, claim_on

pytestmark = pytest.mark.servers


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    yield rig
    rig.close()


def test_a_fire_of_the_present_schedule_runs_once(gate: Gate) -> None:
    fire = gate.fire()
    (claimed,) = gate.claim(fire, fire).claimed
    assert (claimed.execution_id, claimed.task, claimed.params, claimed.attempt) == (
        fire.execution_id,
        "work",
        b"{}",
        1,
    )
    again = gate.claim(fire)
    assert (again.claimed, again.duplicates) == ([], 1)
    row = gate.row(fire)
    assert row is not None and (row["state"], row["worker"], row["origin"]) == ("running", "w", "schedule")
    assert row["lease_until"] > row["started_at"]


def test_a_stale_fire_writes_nothing_and_the_rightful_one_still_runs(gate: Gate) -> None:
    stale = gate.fire(schedule_no=12345)
    assert gate.claim(stale).claimed == []
    assert gate.row(stale) is None
    assert len(gate.claim(gate.fire()).claimed) == 1


def test_the_same_time_under_two_schedule_nos_in_one_batch_runs_once(gate: Gate) -> None:
    right, wrong = gate.fire(), gate.fire(schedule_no=12345)
    for batch in ((wrong, right), (right, wrong)):
        gate.conn.execute("DELETE FROM shardwheel.executions")
        assert [claimed.execution_id for claimed in gate.claim(*batch).claimed] == [right.execution_id]


def test_a_waiting_row_is_taken_by_its_attempt_only_whatever_the_schedule_no(gate: Gate) -> None:
    fire = gate.waiting(NOON_MS, attempt=2, failures=1, state="retry_wait")
    assert gate.claim(gate.fire(attempt=1)).claimed == []
    (claimed,) = gate.claim(gate.fire(attempt=1), gate.fire(attempt=2, schedule_no=999)).claimed
    assert (claimed.attempt, claimed.failures) == (2, 1)
    assert gate.state(fire) == ("running", None, 2)


def test_a_skip_only_ever_inserts_and_gives_way_to_a_fire(gate: Gate) -> None:
    skip = gate.fire(kind=FireKind.SKIP, reason="misfire")
    assert len(gate.claim(skip, gate.fire()).claimed) == 1
    other = gate.fire(NOON_MS + 1, kind=FireKind.SKIP, reason="misfire")
    assert gate.claim(other).recorded == {("skipped", "misfire"): 1}
    waiting = gate.waiting(NOON_MS + 2)
    gate.claim(gate.fire(NOON_MS + 2, kind=FireKind.SKIP, reason="misfire"))
    assert gate.state(waiting) == ("queued", None, 1)


@pytest.mark.parametrize(
    ("job_state", "origin", "attempt", "expected"),
    [
        ("paused", "schedule", 1, ("skipped", "paused")),
        ("paused", "settled", 1, ("skipped", "paused")),
        ("paused", "trigger", 1, ("running", None)),
        ("paused", "backfill", 1, ("running", None)),
        ("paused", "redrive", 1, ("running", None)),
        ("paused", "schedule", 2, ("held", "paused")),
        ("paused", "trigger", 2, ("held", "paused")),
        ("completed", "schedule", 1, ("running", None)),
        ("completed", "trigger", 2, ("running", None)),
        ("deleted", "schedule", 1, ("skipped", "deleted")),
        ("deleted", "trigger", 1, ("skipped", "deleted")),
        ("deleted", "schedule", 2, ("skipped", "deleted")),
    ],
)
def test_the_table_of_states_and_origins(
    gate: Gate, job_state: str, origin: str, attempt: int, expected: tuple[str, str | None]
) -> None:
    fire = gate.waiting(NOON_MS, origin=origin, attempt=attempt)
    gate.update(gate.job_id, state=job_state)
    gate.claim(fire)
    state = gate.state(fire)
    assert state is not None and state[:2] == expected


def test_what_expired_is_skipped_but_a_retry_is_not(gate: Gate) -> None:
    gate.update(gate.job_id, not_after_ms=1000)
    late = gate.fire(1_000_000)
    assert gate.claim(late).recorded == {("skipped", "expired"): 1}
    retry = gate.waiting(2_000_000, attempt=2, failures=1)
    gate.conn.execute(
        "UPDATE shardwheel.executions SET started_at = now() WHERE execution_id = %s",
        [Uuid(retry.execution_id)],
    )
    assert len(gate.claim(retry).claimed) == 1


def test_a_job_that_moved_to_another_pool_goes_out_again(gate: Gate) -> None:
    gate.update(gate.job_id, pool="long")
    fire = gate.fire()
    assert gate.claim(fire).recorded == {("queued", "moved"): 1}
    row = gate.row(fire)
    assert row is not None and row["changed_xid"] is not None
    assert len(gate.claim(gate.fire(schedule_no=0), pool="long").claimed) == 1


def test_an_unknown_handler_is_held(gate: Gate) -> None:
    fire = gate.fire()
    assert gate.claim(fire, tasks=frozenset({"other"})).recorded == {("held", "handler_unknown"): 1}


def test_ranges_become_skip_ranges_and_work_rows_once_and_only_of_the_schedule_in_force(gate: Gate) -> None:
    skip = gate.fire(kind=FireKind.SKIP_RANGE, until_ms=NOON_MS + 9000, count=10, reason="misfire")
    catch_up = gate.fire(kind=FireKind.CATCH_UP_RANGE, until_ms=NOON_MS + 9000, count=10)
    stale = gate.fire(NOON_MS + 1, kind=FireKind.SKIP_RANGE, until_ms=NOON_MS + 2, count=2, schedule_no=5)
    assert gate.claim(skip, skip, catch_up, stale).recorded == {("skipped", "misfire"): 10}
    assert gate.claim(skip, catch_up).recorded == {}
    assert gate.conn.execute("SELECT count(*), sum(count) FROM shardwheel.skip_ranges").fetchone() == (1, 10)
    assert gate.conn.execute("SELECT count(*), max(origin) FROM shardwheel.work_rows").fetchone() == (
        1,
        "schedule",
    )


def test_a_lost_reply_is_found_by_its_token(gate: Gate) -> None:
    token, fire = uuid.uuid4().bytes, gate.fire()
    reply = gate.claim(fire, token=token)
    assert claimed_by(gate.conn, [fire], token) == reply.claimed
    assert claimed_by(gate.conn, [fire], uuid.uuid4().bytes) == []


def test_two_workers_with_the_same_messages_run_each_once(gate: Gate) -> None:
    fires = [gate.fire(NOON_MS + n) for n in range(20)]
    with gate.connect() as first:
        got = claim_on(first, *fires[:15])
        with blocked(gate.dsn, lambda conn: claim_on(conn, *reversed(fires[5:]))) as step:
            first.commit()
            reply = step.result(LIMIT_S)
    ids = [claimed.execution_id for claimed in got.claimed + reply.claimed]
    assert sorted(ids) == sorted(fire.execution_id for fire in fires)
    assert reply.duplicates == 10


def test_two_workers_that_both_take_waiting_rows_run_each_once(gate: Gate) -> None:
    fires = [gate.waiting(NOON_MS + n) for n in range(6)]
    with gate.connect() as first:
        claim_on(first, *fires)
        with blocked(gate.dsn, lambda conn: claim_on(conn, *reversed(fires))) as step:
            first.commit()
            reply = step.result(LIMIT_S)
    assert (reply.claimed, reply.duplicates) == ([], 6)


@pytest.mark.parametrize("change", ["paused", "deleted"])
def test_a_claim_waits_for_a_pause_or_delete_that_is_under_way_and_obeys_it(gate: Gate, change: str) -> None:
    fire, waiting = gate.fire(), gate.waiting(NOON_MS + 1)
    with gate.connect() as people:
        people.execute("UPDATE shardwheel.jobs SET state = %s WHERE job_id = %s", [change, Uuid(gate.job_id)])
        with blocked(gate.dsn, lambda conn: claim_on(conn, fire, waiting)) as step:
            people.commit()
            reply = step.result(LIMIT_S)
    assert reply.claimed == []
    assert gate.row(fire) is None  # its schedule_no is no longer the job's: the pause settled that time
    assert gate.state(waiting) == ("skipped", change, 1)


def test_a_pause_waits_for_a_claim_that_is_under_way(gate: Gate) -> None:
    fire = gate.fire()
    with gate.connect() as worker:
        claim_on(worker, fire)
        pause = "UPDATE shardwheel.jobs SET state = 'paused' WHERE job_id = %s"
        with blocked(gate.dsn, lambda conn: conn.execute(pause, [Uuid(gate.job_id)])) as step:
            worker.commit()
            step.result(LIMIT_S)
    assert gate.state(fire) == ("running", None, 1)


def test_an_edit_under_way_makes_the_old_schedules_fire_stale(gate: Gate) -> None:
    fire = gate.fire()
    with gate.connect() as people:
        people.execute(
            "UPDATE shardwheel.jobs SET schedule = 'every 2' WHERE job_id = %s", [Uuid(gate.job_id)]
        )
        with blocked(gate.dsn, lambda conn: claim_on(conn, fire)) as step:
            people.commit()
            reply = step.result(LIMIT_S)
    assert (reply.claimed, gate.row(fire)) == ([], None)
    assert len(gate.claim(gate.fire()).claimed) == 1


def test_a_tags_edit_under_way_lets_the_fire_run(gate: Gate) -> None:
    fire = gate.fire()
    with gate.connect() as people:
        people.execute("UPDATE shardwheel.jobs SET tags = '{a}' WHERE job_id = %s", [Uuid(gate.job_id)])
        with blocked(gate.dsn, lambda conn: claim_on(conn, fire)) as step:
            people.commit()
            reply = step.result(LIMIT_S)
    assert len(reply.claimed) == 1


def test_a_cancel_under_way_is_obeyed(gate: Gate) -> None:
    waiting, missing = gate.waiting(NOON_MS), gate.fire(NOON_MS + 1)
    with gate.connect() as people:
        people.execute(
            "UPDATE shardwheel.executions SET state = 'cancelled' WHERE execution_id = %s",
            [Uuid(waiting.execution_id)],
        )
        people.execute(
            """INSERT INTO shardwheel.executions
                 (execution_id, tenant_id, partition, job_id, kind, origin, state, scheduled_at, due_at)
               VALUES (%s, 't', 7, %s, 0, 'schedule', 'cancelled', now(), now())""",
            [Uuid(missing.execution_id), Uuid(gate.job_id)],
        )
        with blocked(gate.dsn, lambda conn: claim_on(conn, waiting, missing)) as step:
            people.commit()
            reply = step.result(LIMIT_S)
    assert (reply.claimed, reply.duplicates) == ([], 2)
    assert gate.state(waiting) == ("cancelled", None, 1)
