"""Runs of DAGs as people read them, from rows of every kind that a run leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from shardwheel.dag import parse_dag
from shardwheel.errors import NotFoundError, UsageError
from shardwheel.ids import TASK, execution_id, fire_id, text_of
from shardwheel.store import dag_reading
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_reading import RunFilter, get_dag, list_runs, read_run, task_ids_of
from shardwheel.store.dags import create_dag, edit_dag
from shardwheel.store.job_row import JobRow
from tests.integration.store.blocking import Connection

pytestmark = pytest.mark.servers
START_MS = 1_795_003_200_000
TASKS = [
    {"key": "a", "task": "work"},
    {"key": "b", "task": "work", "depends_on": ["a"]},
    {"key": "c", "task": "work", "depends_on": ["b"]},
    {"key": "each", "task": "item", "depends_on": ["a"], "fan_out": True},
]


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def dag(conn: Connection) -> JobRow:
    dag_id = create_dag(conn, "t", parse_dag({"name": "etl", "sla_s": 60, "tasks": TASKS}))
    return get_dag(conn, "t", dag_id).job


def begin_run(conn: Connection, dag: JobRow, at_ms: int, **columns: Any) -> bytes:
    run_id = fire_id(dag.job_id, dag.partition, at_ms)
    values = {"state": "running", "succeeded": 0, "failed": 0, "took_ms": None} | columns
    conn.execute(
        """INSERT INTO shardwheel.dag_runs
                  (dag_run_id, tenant_id, partition, dag_id, version, state, origin, scheduled_at,
                   sla_at, unfinished, succeeded, failed, ended_at)
           VALUES (%(run)s, 't', %(partition)s, %(dag)s, 1, %(state)s, 'schedule', shardwheel.at(%(at_ms)s),
                   shardwheel.at(%(at_ms)s + 60000), 4, %(succeeded)s, %(failed)s,
                   shardwheel.at(%(at_ms)s + %(took_ms)s))""",
        {"run": Uuid(run_id), "partition": dag.partition, "dag": Uuid(dag.job_id), "at_ms": at_ms} | values,
    )
    return run_id


def put_task(
    conn: Connection, dag: JobRow, run_id: bytes, key: str, state: str, reason: str | None = None
) -> None:
    task_id = task_ids_of(conn, get_dag(conn, "t", dag.job_id))[key]
    execution = execution_id(TASK, task_id, dag.partition, START_MS, run_id)
    conn.execute(
        """INSERT INTO shardwheel.executions
                  (execution_id, tenant_id, partition, job_id, kind, origin, state, reason,
                   scheduled_at, due_at, dag_run_id, output)
           VALUES (%s, 't', %s, %s, 4, 'dag', %s, %s, now(), now(), %s, '[1, 2]')""",
        [Uuid(execution), dag.partition, Uuid(task_id), state, reason, Uuid(run_id)],
    )


def states(conn: Connection, run_id: bytes) -> dict[str, str]:
    return {task["key"]: task["state"] for task in read_run(conn, "t", run_id)["tasks"]}


def test_tasks_states_are_those_of_their_executions_or_derived(conn: Connection, dag: JobRow) -> None:
    run_id = begin_run(conn, dag, START_MS, succeeded=1)
    assert set(states(conn, run_id).values()) == {"pending"}
    put_task(conn, dag, run_id, "a", "succeeded")
    put_task(conn, dag, run_id, "b", "dead", "fatal")
    put_task(conn, dag, run_id, "c", "skipped", "upstream_failed")
    assert states(conn, run_id) == {"a": "succeeded", "b": "dead", "c": "upstream_failed", "each": "pending"}
    put_task(conn, dag, run_id, "each", "running")
    task_id = task_ids_of(conn, get_dag(conn, "t", dag.job_id))["each"]
    conn.execute(
        """INSERT INTO shardwheel.dag_fans
                  (dag_run_id, task_id, tenant_id, partition, items, open_items, failed_items)
           VALUES (%s, %s, 't', 0, 3, 2, 1)""",
        [Uuid(run_id), Uuid(task_id)],
    )
    shown = read_run(conn, "t", run_id)
    assert (shown["state"], shown["dag"], shown["version"], shown["succeeded"]) == ("running", "etl", 1, 1)
    assert shown["tasks"][0]["output"] == [1, 2]
    assert shown["tasks"][1]["reason"] == "fatal"
    assert shown["tasks"][3]["state"] == "running"
    assert shown["tasks"][3]["fan_out"] == {"items": 3, "open": 2, "failed": 1, "skipped": 0}


@pytest.mark.parametrize(
    ("state", "reason", "shown"),
    [
        ("skipped", "upstream_skipped", "upstream_skipped"),
        ("skipped", "expired", "skipped"),
        ("skipped", "pending_again", "pending"),
        ("held", "paused", "held"),
        ("retry_wait", None, "retry_wait"),
        ("force_completed", None, "force_completed"),
    ],
)
def test_each_state_of_an_execution_is_one_of_its_task(
    conn: Connection, dag: JobRow, state: str, reason: str | None, shown: str
) -> None:
    run_id = begin_run(conn, dag, START_MS)
    put_task(conn, dag, run_id, "a", state, reason)
    assert states(conn, run_id)["a"] == shown


def test_outputs_are_left_out_where_they_are_too_much_together(
    conn: Connection, dag: JobRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begin_run(conn, dag, START_MS)
    for key in "abc":
        put_task(conn, dag, run_id, key, "succeeded")
    monkeypatch.setattr(dag_reading, "MOST_OUTPUT_BYTES", 2 * len("[1, 2]"))
    shown = {task["key"]: task for task in read_run(conn, "t", run_id)["tasks"]}
    outputs = [(shown[key]["output"], shown[key]["output_left_out"]) for key in ("a", "b", "c", "each")]
    assert outputs == [([1, 2], False), ([1, 2], False), (None, True), (None, False)]


def test_of_a_cancelled_run_what_never_began_is_cancelled(conn: Connection, dag: JobRow) -> None:
    run_id = begin_run(conn, dag, START_MS, state="cancelled")
    assert set(states(conn, run_id).values()) == {"cancelled"}


def test_a_run_is_read_by_the_version_that_it_began_with(conn: Connection, dag: JobRow) -> None:
    run_id = begin_run(conn, dag, START_MS)
    edit_dag(conn, "t", dag.job_id, {"tasks": TASKS[:1]})
    assert set(states(conn, run_id)) == {"a", "b", "c", "each"}


def test_runs_are_listed_latest_first_by_page_and_state(conn: Connection, dag: JobRow) -> None:
    ids = [begin_run(conn, dag, START_MS + n, took_ms=n, state="succeeded") for n in range(4)]
    late = begin_run(conn, dag, START_MS + 9, took_ms=60_001, state="partial", failed=1)
    first = list_runs(conn, "t", RunFilter(dag.job_id), limit=3)
    rest = list_runs(conn, "t", RunFilter(dag.job_id), limit=3, cursor=first.next_cursor)
    assert [run["id"] for run in first.items + rest.items] == [text_of(one) for one in (late, *ids[::-1])]
    assert [run["sla_met"] for run in first.items] == [False, True, True]
    only_late = (
        RunFilter(dag.job_id, "partial"),
        RunFilter(dag.job_id, from_ms=START_MS + 9, until_ms=START_MS + 10),
    )
    for wanted in only_late:
        assert [run["id"] for run in list_runs(conn, "t", wanted).items] == [text_of(late)]
    with pytest.raises(NotFoundError):
        list_runs(conn, "rival", RunFilter(dag.job_id))
    with pytest.raises(NotFoundError, match="no run"):
        read_run(conn, "rival", late)
    with pytest.raises(UsageError, match="state"):
        list_runs(conn, "t", RunFilter(dag.job_id, "dead"))
