"""What triggers keep beside a state, so that no index names it: what is pending, what may be running."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shardwheel.execution import Claimed, ExecutionState, ResultsStand
from shardwheel.store.arrays import Uuid
from shardwheel.store.migrate import FOLDER, migrate
from shardwheel.store.settle import settle
from shardwheel.store.sweep import sweep_claims, sweep_completed, sweep_lost
from shardwheel.wire import Fire, Outcome
from tests.integration.store.gate import NOON_MS, Gate, result_of

pytestmark = pytest.mark.servers
ALL = range(256)
NOWHERE = ResultsStand("g", {})
END_LEASES = "UPDATE shardwheel.executions SET lease_until = now() - interval '1 s' WHERE state = 'running'"
PENDING = {ExecutionState.QUEUED, ExecutionState.RETRY_WAIT, ExecutionState.HELD}


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    yield rig
    rig.close()


def claims(gate: Gate) -> list[set[bytes]]:
    rows = gate.conn.execute("SELECT execution_ids FROM shardwheel.claims ORDER BY claim_id")
    return [{one.bytes for one in ids} for (ids,) in rows]


def fires(gate: Gate, count: int) -> list[Fire]:
    return [gate.fire(NOON_MS + place) for place in range(count)]


def test_results_are_settled_in_place(gate: Gate) -> None:
    """All rows of full pages too: there is room for the second version of each."""
    claimed = gate.claim(*fires(gate, 400)).claimed
    with gate.connect() as conn:
        assert settle(conn, [result_of(one) for one in claimed]).by_state == {"succeeded": 400}
        # Counted inside the transaction, so nothing has to arrive from anywhere.
        updated = conn.execute(
            """SELECT sum(n_tup_upd), sum(n_tup_hot_upd) FROM pg_stat_xact_user_tables
                WHERE relname LIKE 'executions%'"""
        ).fetchone()
    assert updated == (400, 400)


def test_pending_follows_the_state(gate: Gate) -> None:
    for place, begin in enumerate(ExecutionState):
        fire = gate.waiting(NOON_MS + place, state=begin)
        for end in ExecutionState:
            for state in (begin, end):
                gate.conn.execute("UPDATE shardwheel.executions SET state = %s", [state])
                row = gate.row(fire)
                assert row is not None and row["pending"] == (state if state in PENDING else None)


def test_no_index_names_the_state(gate: Gate) -> None:
    definitions = gate.conn.execute(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'shardwheel' AND tablename LIKE 'executions%'"
    ).fetchall()
    assert len(definitions) > 10
    assert not [text for (text,) in definitions if "(state" in text or " state" in text]


def test_all_that_is_made_to_run_is_named_once(gate: Gate) -> None:
    """By inserts, by updates, by whoever it is; a heartbeat names nothing anew."""
    waiting = gate.waiting(NOON_MS + 9)
    first = {one.execution_id for one in gate.claim(*fires(gate, 3), waiting).claimed}
    assert len(first) == 4
    assert claims(gate) in ([first - {waiting.execution_id}, {waiting.execution_id}], [first])
    named = claims(gate)
    gate.conn.execute("UPDATE shardwheel.executions SET lease_until = now()")
    assert claims(gate) == named


def test_a_claim_shrinks_with_what_runs_of_it_and_goes_with_the_last(gate: Gate) -> None:
    running = gate.claim(*fires(gate, 3)).claimed
    gate.settle(result_of(running[0]))
    sweep_claims(gate.conn, ALL)
    assert claims(gate) == [{one.execution_id for one in running}]
    gate.settle(result_of(running[1]))
    sweep_claims(gate.conn, ALL)
    assert claims(gate) == [{running[2].execution_id}]
    gate.settle(result_of(running[2]))
    sweep_claims(gate.conn, [8])
    assert len(claims(gate)) == 1  # Another owner's business.
    sweep_claims(gate.conn, ALL)
    assert claims(gate) == []


def test_what_runs_again_is_found_again(gate: Gate) -> None:
    (claimed,) = gate.claim(gate.fire()).claimed
    gate.settle(result_of(claimed, Outcome.RELEASED))
    sweep_claims(gate.conn, ALL)
    again = gate.claim(gate.fire(schedule_no=0, attempt=2)).claimed
    sweep_claims(gate.conn, ALL)
    assert claims(gate) == [{claimed.execution_id}] and len(again) == 1
    gate.conn.execute(END_LEASES)
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {"queued": 1}


def test_a_claim_made_while_another_is_cleared_away_is_not_missed(gate: Gate) -> None:
    (claimed,) = gate.claim(gate.fire()).claimed
    gate.settle(result_of(claimed, Outcome.RELEASED))
    with gate.connect() as sweep:
        sweep_claims(sweep, ALL)
        gate.claim(gate.fire(schedule_no=0, attempt=2))
        sweep.commit()
    assert claims(gate) == [{claimed.execution_id}]
    gate.conn.execute(END_LEASES)
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {"queued": 1}


def test_the_apis_role_changes_executions_without_a_right_to_claims(gate: Gate) -> None:
    (claimed,) = gate.claim(gate.fire()).claimed
    waiting = gate.waiting(NOON_MS + 1)
    with gate.connect() as api:
        api.execute("SET ROLE shardwheel_api")
        api.execute("SELECT set_config('shardwheel.tenant', 't', true)")
        stop = "UPDATE shardwheel.executions SET cancel_requested_at = now() WHERE execution_id = %s"
        assert api.execute(stop, [Uuid(claimed.execution_id)]).rowcount == 1
        cancel = "UPDATE shardwheel.executions SET state = 'cancelled' WHERE execution_id = %s"
        assert api.execute(cancel, [Uuid(waiting.execution_id)]).rowcount == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            api.execute("SELECT FROM shardwheel.claims")


def test_a_job_is_not_over_while_anything_of_it_runs_waits_or_is_held(gate: Gate) -> None:
    job_id = gate.job_id
    gate.update(job_id, last_at="2026-11-18T12:00:00Z")
    gate.conn.execute(
        """UPDATE shardwheel.partitions SET floor_ms = shardwheel.ms('2027-01-01'),
                  floor_xid = pg_snapshot_xmax(pg_current_snapshot())"""
    )
    (claimed,) = gate.claim(gate.fire()).claimed
    assert sweep_completed(gate.conn, ALL)[0] == 0
    for state in ("queued", "held", "retry_wait"):
        _set_state(gate, claimed, state)
        assert sweep_completed(gate.conn, ALL)[0] == 0
    _set_state(gate, claimed, "succeeded")
    assert sweep_completed(gate.conn, ALL)[0] == 1


def test_what_was_there_before_the_migration_is_found_after_it(database: str, tmp_path: Path) -> None:
    for file in FOLDER.glob("000[1-8]_*.sql"):
        shutil.copy(file, tmp_path)
    with psycopg.connect(database, autocommit=True) as conn:
        migrate(conn, folder=tmp_path)
        before = Gate(database)
        states = [*PENDING, ExecutionState.RUNNING, ExecutionState.SUCCEEDED]
        rows = {state: before.waiting(NOON_MS + place, state=state) for place, state in enumerate(states)}
        conn.execute(END_LEASES)
        conn.execute("UPDATE shardwheel.executions SET claim_token = gen_random_uuid()")
        migrate(conn)
        assert claims(before) == [{rows[ExecutionState.RUNNING].execution_id}]
        for state, fire in rows.items():
            row = before.row(fire)
            assert row is not None and row["pending"] == (state if state in PENDING else None)
        assert sweep_lost(conn, ALL, NOWHERE).by_state == {"queued": 1}
        before.close()


def _set_state(gate: Gate, one: Claimed, state: str) -> None:
    values: dict[str, Any] = {"state": state, "id": uuid.UUID(bytes=one.execution_id)}
    gate.conn.execute(
        "UPDATE shardwheel.executions SET state = %(state)s WHERE execution_id = %(id)s", values
    )
