"""What a fan-out and its join ask of PostgreSQL: as many statements for a thousand items as for ten, and none
that counts executions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from shardwheel.dag import GREATEST_DEPTH, MOST_TASKS, parse_dag
from shardwheel.execution import Claimant
from shardwheel.ids import fire_id
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.claim import claim
from shardwheel.store.dag_inputs import read_inputs
from shardwheel.store.dags import create_dag, edit_dag
from shardwheel.store.jobs import create_jobs, get_job
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome
from tests.contract.dag_scene import Dag, Shape, plant_rows
from tests.integration.store.gate import result_of

pytestmark = pytest.mark.servers

FAN = Shape({"list": (), "each": ("list",), "join": ("each",)}, frozenset({"each"}))
BATCH = 500
# A subquery or a statement that counts rows of the table, not those that it was given.
COUNTS_EXECUTIONS = re.compile(r"count\(\*\)[^()]*FROM shardwheel\.(executions|dag_\w+)", re.DOTALL)


class Counting(psycopg.Connection[Any]):
    """Remembers what was asked."""

    asked: list[str]

    def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
        text = query if isinstance(query, bytes) else str(query).encode()
        self.asked.append(text.decode())
        return super().execute(query, params, **options)


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Counting]:
    with Counting.connect(migrated_database, autocommit=True) as connection:
        connection.asked = []
        yield connection


def plant(conn: Counting) -> Dag:
    posting = parse_posting({"task": "work", "every": "1h"})
    with conn.transaction():
        dag_id, *tasks = create_jobs(conn, "t", [posting, *[parse_posting({"task": "work"})] * 3])
        dag = Dag(get_job(conn, "t", dag_id), dict(zip(FAN.parents, tasks, strict=True)))
        plant_rows(conn, dag, FAN)
    return dag


def asked(conn: Counting) -> list[str]:
    found, conn.asked = conn.asked, []
    return found


def claim_waiting(conn: Counting, partition: int) -> list[Any]:
    rows = conn.execute(
        "SELECT execution_id, job_id, scheduled_ms, attempt FROM shardwheel.waiting_entries"
    ).fetchall()
    fires = [
        Fire(FORMAT_VERSION, FireKind.FIRE, execution_id, job_id, partition, 0, at_ms, at_ms, attempt)
        for execution_id, job_id, at_ms, attempt in rows
    ]
    conn.asked = []
    with conn.transaction():
        return claim(conn, [(fire, 2) for fire in fires], CLAIMANT).claimed


CLAIMANT = Claimant("w", "short", frozenset({"work"}), bytes(16))


def settled(conn: Counting, claimed: list[Any], output: Any = None) -> None:
    told: dict[str, Any] = {} if output is None else {"output": msgspec.json.encode(output)}
    with conn.transaction():
        settle(conn, [result_of(one, dag_run_id=one.dag_run_id, **told) for one in claimed])


def statements_of_a_run(conn: Counting, items: int, batch: int) -> list[list[str]]:
    """Of each step: what is asked to fan out, to end a batch of items, the last one, and to read their
    outputs."""
    dag = plant(conn)
    job = dag.job
    at_ms = job.effective_from_ms
    run_id = fire_id(job.job_id, job.partition, at_ms)
    head = (FORMAT_VERSION, FireKind.FIRE, run_id, job.job_id, job.partition)
    with conn.transaction():
        claim(conn, [(Fire(*head, job.schedule_no, at_ms, at_ms, 1), 2)], CLAIMANT)
    first = claim_waiting(conn, job.partition)
    asked(conn)
    settled(conn, first, list(range(items)))
    steps = [asked(conn)]
    claimed = claim_waiting(conn, job.partition)
    assert len(claimed) == items
    asked(conn)
    for start in range(0, items, batch):
        settled(conn, claimed[start : start + batch])
        steps.append(asked(conn))
    (join,) = claim_waiting(conn, job.partition)
    asked(conn)
    assert len(read_inputs(conn, join.execution_id).outputs["each"]) == items
    steps.append(asked(conn))
    settled(conn, [join])
    row = conn.execute("SELECT state FROM shardwheel.dag_runs WHERE dag_run_id = %s", [Uuid(run_id)])
    assert row.fetchone() == ("succeeded",)
    return steps


def test_a_fan_out_of_a_thousand_asks_no_more_often_than_one_of_forty(conn: Counting) -> None:
    few = statements_of_a_run(
        conn, 40, 20
    )  # more than are planned once (`planning`), or the first batch says so
    many = statements_of_a_run(conn, 1_000, BATCH)
    assert [len(step) for step in many] == [len(step) for step in few]
    assert many == few
    assert max(map(len, many)) < 12
    assert [one for step in many for one in step if COUNTS_EXECUTIONS.search(one)] == []


def statements_of_a_dead_root(conn: Counting, length: int) -> int:
    """What is asked when the first task of a chain dies, and none of the others can run."""
    tasks = [
        {"key": f"t{n}", "task": "work", "depends_on": [f"t{n - 1}"] if n else []} for n in range(length)
    ]
    posting = parse_dag({"policy": "continue", "every": "1h", "tasks": tasks})
    with conn.transaction():
        dag_id = create_dag(conn, "t", posting)
    job = get_job(conn, "t", dag_id)
    at_ms = job.effective_from_ms
    head = (FORMAT_VERSION, FireKind.FIRE, fire_id(dag_id, job.partition, at_ms), dag_id, job.partition)
    with conn.transaction():
        claim(conn, [(Fire(*head, job.schedule_no, at_ms, at_ms, 1), 2)], CLAIMANT)
    (root,) = claim_waiting(conn, job.partition)
    asked(conn)
    with conn.transaction():
        settle(conn, [result_of(root, Outcome.FATAL, dag_run_id=root.dag_run_id)])
    count = len(asked(conn))
    ends = "SELECT state, failed, skipped FROM shardwheel.dag_runs WHERE dag_id = %s"
    assert conn.execute(ends, [Uuid(dag_id)]).fetchall() == [("failed", 1, length - 1)]
    return count


def test_what_follows_from_a_death_at_the_head_of_the_longest_chain_is_not_told_level_by_level(
    conn: Counting,
) -> None:
    few, many = statements_of_a_dead_root(conn, 20), statements_of_a_dead_root(conn, GREATEST_DEPTH)
    assert many == few < 50


def test_ten_thousand_tasks_are_stored_and_edited_by_a_handful_of_statements(conn: Counting) -> None:
    def tasks(count: int, **fields: Any) -> list[dict[str, Any]]:
        return [
            {"key": f"t{n}", "task": "work", "depends_on": [f"t{n - 10}"] if n >= 10 else []} | fields
            for n in range(count)
        ]

    def store(count: int) -> tuple[int, int]:
        dag_id = create_dag(conn, "t", parse_dag({"tasks": tasks(count)}))
        stored = len(asked(conn))
        edit_dag(conn, "t", dag_id, {"tasks": tasks(count, timeout_s=5)})
        return stored, len(asked(conn))

    assert store(MOST_TASKS) == store(20)


def test_a_count_of_executions_would_be_seen() -> None:
    assert COUNTS_EXECUTIONS.search("SELECT count(*) AS n\n  FROM shardwheel.executions WHERE true")
    assert not COUNTS_EXECUTIONS.search("SELECT count(*) FROM unnest(a) AS i JOIN shardwheel.executions")
