"""How PostgreSQL plans what is claimed and settled: few at a time once a session, and always by key."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from shardwheel.dag import parse_dag
from shardwheel.execution import Claimant, Claimed
from shardwheel.posting import parse_posting
from shardwheel.store.claim import claim
from shardwheel.store.dags import create_dag
from shardwheel.store.jobs import create_jobs
from shardwheel.store.planning import plan_anew, plan_by_key
from shardwheel.store.requests import trigger_job
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind
from tests.integration.store.gate import result_of

pytestmark = pytest.mark.servers
Connection = psycopg.Connection[Any]
# Those that a chain's step asks for again and again, by how they begin.
PLANS = """
SELECT left(statement, 40), generic_plans, custom_plans FROM pg_prepared_statements
 WHERE statement ~ '^-- (The one gate|A batch of|Runs, locked|Executions of tasks|Tasks that|How far)'"""
SEEN = """
SELECT relname, seq_tup_read FROM pg_stat_xact_user_tables
 WHERE relname ~ '^(jobs|executions.*|dag_(tasks|edges|runs|counters|versions))$' AND seq_tup_read > 0"""
MODE = """
SELECT current_setting('plan_cache_mode'), current_setting('enable_hashjoin'),
       current_setting('enable_partition_pruning')"""


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database) as connection:
        yield connection


def chain(length: int) -> list[dict[str, Any]]:
    return [{"key": f"t{n}", "task": "work", "depends_on": [f"t{n - 1}"] if n else []} for n in range(length)]


def start(conn: Connection, tasks: Sequence[dict[str, Any]]) -> None:
    dag_id = create_dag(conn, "t", parse_dag({"tasks": list(tasks)}))
    trigger_job(conn, "t", dag_id, uuid.uuid4().bytes)
    conn.commit()
    assert claim_waiting(conn) == []  # That was the DAG's own.


def claim_waiting(conn: Connection) -> list[Claimed]:
    rows = conn.execute(
        "SELECT execution_id, job_id, partition, scheduled_ms, attempt FROM shardwheel.waiting_entries"
    ).fetchall()
    fires = [
        Fire(FORMAT_VERSION, FireKind.FIRE, execution_id, job_id, partition, 0, at_ms, at_ms, attempt)
        for execution_id, job_id, partition, at_ms, attempt in rows
    ]
    conn.commit()
    claimant = Claimant("w", "short", frozenset({"work"}), uuid.uuid4().bytes)
    claimed = claim(conn, [(fire, 2) for fire in fires], claimant).claimed if fires else []
    conn.commit()
    return claimed


def settled(conn: Connection, claimed: Sequence[Claimed]) -> None:
    settle(conn, [result_of(one, dag_run_id=one.dag_run_id) for one in claimed])
    conn.commit()


def test_a_step_of_a_chain_is_planned_once_a_session(conn: Connection) -> None:
    """Prepared alone, the claim and the settlement were planned anew for each execution."""
    start(conn, chain(12))
    steps = 0
    while claimed := claim_waiting(conn):
        settled(conn, claimed)
        steps += 1
    plans = conn.execute(PLANS).fetchall()
    assert steps == 12
    assert len(plans) == 6
    assert [(name, custom) for name, generic, custom in plans if custom or generic < steps - 1] == []


def test_a_plan_from_when_the_tables_were_small_goes_through_none_of_them_later(conn: Connection) -> None:
    start(conn, chain(8))
    while claimed := claim_waiting(conn):
        settled(conn, claimed)
    create_jobs(conn, "t", [parse_posting({"task": "work", "every": "1h"})] * 500)
    create_dag(conn, "t", parse_dag({"tasks": chain(500)}))
    start(conn, chain(2))
    conn.execute("SELECT pg_stat_force_next_flush()")  # What was gone through until now is not meant.
    claimed = claim_waiting(conn)
    settle(conn, [result_of(one, dag_run_id=one.dag_run_id) for one in claimed])
    assert len(claimed) == 1
    assert conn.execute(SEEN).fetchall() == []


def test_what_joins_many_with_many_can_be_planned_anew(conn: Connection) -> None:
    plan_by_key(conn)
    by_key = conn.execute(MODE).fetchone()
    plan_anew(conn)
    anew = conn.execute(MODE).fetchone()
    conn.commit()
    # With pruning PostgreSQL 18.4 crashes at times: test_scuffle.
    assert (by_key, anew) == (("force_generic_plan", "off", "off"), ("auto", "on", "on"))
    assert conn.execute(MODE).fetchone() == ("auto", "on", "on")
