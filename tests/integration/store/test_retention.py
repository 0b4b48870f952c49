"""Retention on real PostgreSQL: what is over goes by class and age, and never what a fire must still meet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from shardwheel.errors import ConflictError
from shardwheel.keeping import Keep
from shardwheel.schedule import Definition, schedule_from
from shardwheel.store.arrays import Uuid
from shardwheel.store.requests import cancel_execution
from shardwheel.store.retention import (
    FROM_THE_OLDEST,
    OTHERS,
    drop_empty_months,
    retire_executions,
    retire_others,
)
from shardwheel.store.steering import set_back
from shardwheel.wire import Fire, Outcome
from tests.integration.store.gate import Gate, result_of

pytestmark = pytest.mark.servers

DAY_MS = 86_400_000
KEEP = Keep(*(timedelta(days=days) for days in (7, 30, 14, 365, 30)))


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    old_schedule(rig)
    set_floor(rig, now_ms(rig))  # Everything up to a moment ago has met the claim.
    yield rig
    rig.close()


def old_schedule(gate: Gate) -> None:
    """The job's schedule has been as it is for long."""
    gate.conn.execute("ALTER TABLE shardwheel.jobs DISABLE TRIGGER jobs_before_change")
    gate.conn.execute("UPDATE shardwheel.jobs SET effective_from = now() - interval '90 days'")
    gate.conn.execute("ALTER TABLE shardwheel.jobs ENABLE TRIGGER jobs_before_change")


def now_ms(gate: Gate) -> int:
    ((now,),) = gate.conn.execute("SELECT shardwheel.now_ms()")
    return int(now)


def set_floor(gate: Gate, floor_ms: int, *, xid: str = "pg_current_xact_id()") -> None:
    gate.conn.execute(
        f"UPDATE shardwheel.partitions SET floor_ms = %s, floor_xid = {xid}, fired_through_ms = %s".encode(),  # noqa: S608
        [floor_ms, floor_ms],
    )


def ended(gate: Gate, days_ago: float, outcome: Outcome = Outcome.SUCCEEDED, **columns: Any) -> Fire:
    """An execution that ran and ended so many days ago."""
    fire = gate.fire(now_ms(gate) - round(days_ago * DAY_MS))
    (claimed,) = gate.claim(fire).claimed
    gate.settle(result_of(claimed, outcome))
    values = {"ended_at": "scheduled_at"} | columns
    for name, value in values.items():
        gate.conn.execute(
            f"UPDATE shardwheel.executions SET {name} = {value} WHERE execution_id = %s".encode(),  # noqa: S608
            [Uuid(fire.execution_id)],
        )
    return fire


def retire(gate: Gate, **more: Any) -> int:
    with gate.conn.transaction():
        return retire_executions(gate.conn, KEEP, FROM_THE_OLDEST, **more).gone


def count(gate: Gate, table: str) -> int:
    ((rows,),) = gate.conn.execute(f"SELECT count(*) FROM shardwheel.{table}".encode())  # noqa: S608
    return int(rows)


def test_each_class_goes_at_its_own_age_with_its_attempts_and_logs(gate: Gate) -> None:
    young = [ended(gate, 6.9), ended(gate, 8, Outcome.FATAL), ended(gate, 29, Outcome.CANCELLED)]
    old = [ended(gate, 7.1), ended(gate, 31, Outcome.FATAL), ended(gate, 32, Outcome.CANCELLED)]
    gate.conn.execute(
        """INSERT INTO shardwheel.execution_logs
                  (execution_id, attempt, first_line, tenant_id, partition, count, bytes, lines)
           SELECT execution_id, 1, 1, tenant_id, partition, 1, 9, '[]' FROM shardwheel.executions"""
    )
    assert retire(gate) == 3
    assert [gate.row(fire) is None for fire in [*young, *old]] == [False] * 3 + [True] * 3
    assert count(gate, "attempts") == count(gate, "execution_logs") == 3
    assert retire(gate) == 0


def test_what_is_unfinished_stays_however_old(gate: Gate) -> None:
    now = now_ms(gate)
    fires = [gate.waiting(now - 90 * DAY_MS - n, state=state) for n, state in enumerate(("queued", "held"))]
    running = gate.fire(now - 91 * DAY_MS)
    gate.claim(running)
    assert retire(gate) == 0
    assert all(gate.row(fire) for fire in [*fires, running])


def test_nothing_above_the_claim_floor_goes(gate: Gate) -> None:
    """A pool that lags, or a leader that is away, for longer than the retention."""
    fire = ended(gate, 8)
    set_floor(gate, fire.due_ms - 1)
    assert retire(gate) == 0
    # So the second fire of the same time, read again or replayed from the floor, dies at the claim.
    assert gate.claim(fire).duplicates == 1
    set_floor(gate, fire.due_ms)
    assert retire(gate) == 1


def test_nothing_of_a_schedule_that_the_floor_does_not_know_goes(gate: Gate) -> None:
    """Such a job is replayed from its effective_from on, however far F has come."""
    fire = ended(gate, 8)
    ((xid,),) = gate.conn.execute("SELECT schedule_xid::text FROM shardwheel.jobs")
    set_floor(gate, now_ms(gate), xid=f"'{xid}'")
    assert retire(gate) == 0
    gate.update(gate.job_id, jitter_ms=5)  # A new schedule, from now on: the old one is never replayed.
    assert retire(gate) == 1
    assert gate.claim(fire).claimed == []


def test_one_cancelled_ahead_stays_while_its_jitter_may_be_above_the_floor(gate: Gate) -> None:
    gate.update(gate.job_id, jitter_ms=DAY_MS, schedule=schedule_from(Definition(every_ms=1)).text)
    old_schedule(gate)
    fire = gate.fire(now_ms(gate) - 40 * DAY_MS)
    cancel_execution(gate.conn, "t", fire.execution_id, gate.job_id)
    gate.conn.execute("UPDATE shardwheel.executions SET ended_at = due_at")
    set_floor(gate, fire.scheduled_ms + DAY_MS - 1)
    assert retire(gate) == 0
    set_floor(gate, fire.scheduled_ms + DAY_MS)
    assert retire(gate) == 1
    with pytest.raises(ConflictError):
        set_back(gate.conn, [7], fire.scheduled_ms + DAY_MS - 1)


def test_an_age_counts_from_the_end_or_from_a_time_that_came_later(gate: Gate) -> None:
    long = ended(gate, 20, ended_at="now() - interval '6 days'")
    ahead = ended(gate, 10, Outcome.CANCELLED, ended_at="now() - interval '40 days'")
    assert retire(gate) == 0
    assert gate.row(long) and gate.row(ahead)


def test_a_window_of_catching_up_keeps_rows_longer(gate: Gate) -> None:
    fire = ended(gate, 10)
    gate.update(gate.job_id, catchup_window_ms=9 * DAY_MS + DAY_MS // 2)
    assert retire(gate) == 0
    gate.update(gate.job_id, catchup_window_ms=8 * DAY_MS)
    assert retire(gate) == 1
    assert gate.row(fire) is None


def test_a_replay_goes_no_further_back_than_rows_are(gate: Gate) -> None:
    fire = ended(gate, 8)
    ended(gate, 9)
    assert retire(gate) == 2
    with gate.conn.transaction():
        with pytest.raises(ConflictError, match="retention removed"):
            set_back(gate.conn, [7], fire.due_ms - 1)
    assert set_back(gate.conn, [7], fire.due_ms) != []


def test_while_somebody_sets_a_partition_back_nothing_goes(gate: Gate) -> None:
    """Either it sees what is gone, or retention sees the floor that it set."""
    fire = ended(gate, 8)
    with gate.connect() as other:
        set_back(other, [7], fire.due_ms - 1)
        assert retire(gate) == 0
        other.commit()
    assert retire(gate) == 0
    assert gate.row(fire) is not None


def test_the_walk_goes_on_where_a_batch_ended(gate: Gate) -> None:
    for n in range(5):
        ended(gate, 8 + n)
    kept = ended(gate, 11.5, Outcome.FATAL)
    retired = [retire_executions(gate.conn, KEEP, FROM_THE_OLDEST, most=2)]
    while (after := retired[-1].after) is not None:
        retired.append(retire_executions(gate.conn, KEEP, after, most=2))
    assert [batch.gone for batch in retired] == [1, 2, 2, 0]
    assert gate.row(kept) is not None and count(gate, "executions") == 1


def test_one_that_somebody_holds_is_left_for_the_next_walk(gate: Gate) -> None:
    fire = ended(gate, 8)
    with gate.connect() as other:
        other.execute(
            "SELECT 1 FROM shardwheel.executions WHERE execution_id = %s FOR UPDATE",
            [Uuid(fire.execution_id)],
        )
        assert retire(gate) == 0
    assert retire(gate) == 1


def test_a_month_goes_once_it_is_empty(gate: Gate) -> None:
    gate.conn.execute("SELECT shardwheel.make_months(0, 6)")
    fire = ended(gate, 100, Outcome.FATAL)
    gate.update(gate.job_id, catchup_window_ms=120 * DAY_MS)
    ((used,),) = gate.conn.execute(
        "SELECT tableoid::regclass::text FROM shardwheel.executions WHERE execution_id = %s",
        [Uuid(fire.execution_id)],
    )
    dropped = drop_empty_months(gate.conn, KEEP)
    assert len(dropped) == 4 and used.removeprefix("shardwheel.") not in dropped
    gate.update(gate.job_id, catchup_window_ms=0)
    assert retire(gate) == 1
    assert drop_empty_months(gate.conn, KEEP) == [used.removeprefix("shardwheel.")]
    assert drop_empty_months(gate.conn, KEEP) == []


def test_the_rest_goes_by_its_own_age(gate: Gate) -> None:
    letters = [ended(gate, days, Outcome.FATAL) for days in (13, 15, 16)]
    conn = gate.conn
    conn.execute("UPDATE shardwheel.dead_letters SET created_at = scheduled_at, published_at = now()")
    conn.execute(
        "UPDATE shardwheel.dead_letters SET published_at = NULL WHERE execution_id = %s",
        [Uuid(letters[2].execution_id)],
    )
    conn.execute(
        """INSERT INTO shardwheel.callbacks
                  (tenant_id, partition, execution_id, job_id, url, host, body, state, created_at, ended_at)
           SELECT 't', 7, gen_random_uuid(), gen_random_uuid(), '', '', '{}', state, now() - age,
                  CASE WHEN state <> 'open' THEN now() - age END
             FROM (VALUES ('delivered', interval '6 days'), ('delivered', '8 days'), ('given_up', '8 days'),
                          ('given_up', '31 days'), ('open', '29 days'), ('open', '31 days'))
               AS v (state, age)"""
    )
    conn.execute(
        """INSERT INTO shardwheel.idempotency_keys (tenant_id, key, body_hash, expires_at)
           VALUES ('t', 'a', '', now() - interval '1 s'), ('t', 'b', '', now() + interval '1 h')"""
    )
    conn.execute(
        """INSERT INTO shardwheel.audit (tenant_id, at, actor, action, object_kind, object_id)
           SELECT 't', now() - age, '', '', '', ''
             FROM (VALUES (interval '364 days'), ('366 days')) AS v (age)"""
    )
    for table, columns, values in (
        ("skip_ranges", "created_at, reason, count", "now() - age, 'misfire', 2"),
        ("work_rows", "ended_at, state, origin, schedule", "now() - age, 'done', 'backfill', ''"),
    ):
        conn.execute(
            f"""INSERT INTO shardwheel.{table} (job_id, first_at, last_at, tenant_id, partition, {columns})
                SELECT gen_random_uuid(), now() - age, last_at, 't', 7, {values}
                  FROM (VALUES (interval '29 days', now() - interval '28 days'),
                               ('31 days', now() - interval '30 days'),
                               ('31 days', now() + interval '1 day')) AS v (age, last_at)""".encode()  # noqa: S608
        )
    gone = {name: retire_others(conn, name, KEEP) for name in OTHERS}
    assert gone == {
        "retire_runs": 0,
        "retire_versions": 0,
        "retire_letters": 1,
        "retire_callbacks": 2,
        "retire_open_callbacks": 1,
        "retire_keys": 1,
        "retire_audit": 1,
        "retire_skip_ranges": 1,
        "retire_work": 1,
        "retire_jobs": 0,
    }
    assert {retire_others(conn, name, KEEP) for name in OTHERS} == {0}


def test_a_tombstone_goes_once_nothing_speaks_of_it(gate: Gate) -> None:
    empty, used = gate.add_job(), gate.job_id
    ended(gate, 8)
    for job_id in (empty, used):
        gate.update(job_id, state="deleted")
    assert retire_others(gate.conn, "retire_jobs", KEEP) == 0
    gate.conn.execute("ALTER TABLE shardwheel.jobs DISABLE TRIGGER jobs_before_change")
    gate.conn.execute("UPDATE shardwheel.jobs SET deleted_at = now() - interval '31 days'")
    assert retire_others(gate.conn, "retire_jobs", KEEP) == 1
    assert retire(gate) == 1
    assert retire_others(gate.conn, "retire_jobs", KEEP) == 1
    assert count(gate, "jobs") == 0


def test_the_services_may_remove_and_the_api_may_not(gate: Gate) -> None:
    ended(gate, 8)
    for role in ("shardwheel_api", "shardwheel_system"):
        with gate.conn.transaction(force_rollback=True):
            gate.conn.execute("SELECT set_config('role', %s, true)", [role])
            if role == "shardwheel_api":
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    retire_executions(gate.conn, KEEP, FROM_THE_OLDEST)
            else:
                assert retire_executions(gate.conn, KEEP, FROM_THE_OLDEST).gone == 1
                assert sum(retire_others(gate.conn, name, KEEP) for name in OTHERS) == 0
                assert drop_empty_months(gate.conn, KEEP) == []
