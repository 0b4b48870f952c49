"""DAGs on real PostgreSQL: stored whole, edited by versions, read back, paused, deleted, triggered."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from shardwheel.dag import MOST_TASKS, parse_dag
from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.ids import id_of, partition_of_id, text_of
from shardwheel.partition import partition_of
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_reading import (
    DagFilter,
    RunFilter,
    get_dag,
    list_dags,
    list_runs,
    read_dag,
    read_run,
    task_ids_of,
)
from shardwheel.store.dags import create_dag, delete_dag, edit_dag, pause_dag, resume_dag, trigger_dag
from shardwheel.store.dependencies import add_dependency, remove_dependency
from shardwheel.store.jobs import create_jobs, delete_job, edit_job, get_job, list_jobs, pause_job
from shardwheel.store.requests import trigger_job
from tests.integration.store.blocking import Connection, blocked

pytestmark = pytest.mark.servers


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        yield connection


def task(key: str, *parents: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "task": "work", "depends_on": list(parents)} | fields


DIAMOND = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")]


def create(conn: Connection, **fields: Any) -> bytes:
    return create_dag(conn, "t", parse_dag({"name": "etl", "tasks": DIAMOND} | fields))


def ids(conn: Connection, dag_id: bytes) -> dict[str, bytes]:
    return task_ids_of(conn, get_dag(conn, "t", dag_id))


def edges(conn: Connection, dag_id: bytes, version: int) -> set[tuple[str, str]]:
    rows = conn.execute(
        """SELECT p.task_key, c.task_key FROM shardwheel.dag_edges AS e
             JOIN shardwheel.dag_tasks AS p ON p.task_id = e.parent_id AND p.version = e.version
             JOIN shardwheel.dag_tasks AS c ON c.task_id = e.child_id AND c.version = e.version
            WHERE e.dag_id = %s AND e.version = %s""",
        [Uuid(dag_id), version],
    )
    return {(parent, child) for parent, child in rows}


def test_a_dag_is_stored_whole_in_one_partition(conn: Connection) -> None:
    dag_id = create(conn, cron="0 2 * * *", policy="continue", sla_s=90, overlap="skip")
    dag = get_job(conn, "t", dag_id)
    assert (dag.kind, dag.task, dag.overlap, dag.timing.schedule.kind) == ("dag", "", "skip", "cron")
    by_key = ids(conn, dag_id)
    assert set(by_key) == {"a", "b", "c", "d"}
    for key, task_id in by_key.items():
        row = get_job(conn, "t", task_id)
        assert (row.kind, row.task, row.name, row.partition) == ("task", "work", key, partition_of(dag_id))
        assert row.timing.schedule.kind == "none"
        assert task_id > dag_id
    assert edges(conn, dag_id, 1) == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}
    degrees = conn.execute("SELECT task_key, in_degree FROM shardwheel.dag_tasks").fetchall()
    assert dict(degrees) == {"a": 0, "b": 1, "c": 1, "d": 2}


def test_nothing_is_stored_of_a_dag_whose_schedule_is_refused(conn: Connection) -> None:
    with pytest.raises(UsageError), conn.transaction():
        create(conn, cron="0 0 30 2 *")
    assert conn.execute("SELECT 1 FROM shardwheel.jobs").fetchall() == []


def test_ten_thousand_tasks_are_stored(conn: Connection) -> None:
    tasks = [task(f"t{n}", *([f"t{n - 10}"] if n >= 10 else [])) for n in range(MOST_TASKS)]
    posting = parse_dag({"tasks": tasks})
    dag_id = create_dag(conn, "t", posting)
    assert len(ids(conn, dag_id)) == MOST_TASKS
    assert conn.execute("SELECT count(*) FROM shardwheel.dag_edges").fetchone() == (MOST_TASKS - 10,)


def test_a_dag_is_read_as_it_was_posted_with_its_defaults(conn: Connection) -> None:
    tasks = [task("a", pool="long", params={"x": 1}), task("each", "a", fan_out=True)]
    dag_id = create(conn, every="1h", tags=["x"], tasks=tasks, sla_s=90, end_at="2200-01-01T01:00:00+01:00")
    shown = read_dag(conn, "t", dag_id)
    assert (shown["id"], shown["name"], shown["state"]) == (text_of(dag_id), "etl", "active")
    assert (shown["version"], shown["policy"], shown["sla_s"]) == (1, "fail_fast", 90)
    assert (shown["every"], shown["end_at"], shown["tags"]) == ("1h", "2200-01-01T00:00:00.000Z", ["x"])
    assert shown["next_at"] > shown["created_at"]
    assert (shown["task_count"], shown["overlap"], shown["priority"]) == (2, "allow", "normal")
    by_key = ids(conn, dag_id)
    assert shown["tasks"] == [
        {
            "id": text_of(by_key["a"]),
            "key": "a",
            "task": "work",
            "params": {"x": 1},
            "depends_on": [],
            "fan_out": False,
            "pool": "long",
        },
        {
            "id": text_of(by_key["each"]),
            "key": "each",
            "task": "work",
            "params": {},
            "depends_on": ["a"],
            "fan_out": True,
        },
    ]


def test_an_edit_makes_a_version_that_keeps_what_did_not_change(conn: Connection) -> None:
    dag_id = create(conn)
    before = ids(conn, dag_id)
    changed = [task("a"), task("b", "a", params={"x": 1}), task("d", "b"), task("e", "d")]
    assert edit_dag(conn, "t", dag_id, {"tasks": changed}).version == 2
    after = ids(conn, dag_id)
    assert (after["a"], after["d"]) == (before["a"], before["d"])
    assert after["b"] != before["b"]
    assert set(after) == {"a", "b", "d", "e"}
    assert edges(conn, dag_id, 2) == {("a", "b"), ("b", "d"), ("d", "e")}
    assert edges(conn, dag_id, 1) == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}
    assert get_job(conn, "t", before["b"]).params == {}
    assert get_job(conn, "t", after["b"]).params == {"x": 1}


def test_an_edit_that_changes_nothing_makes_no_version(conn: Connection) -> None:
    dag_id = create(conn, cron="0 2 * * *")
    assert edit_dag(conn, "t", dag_id, {"cron": "0 2 * * *", "name": "etl"}).version == 1


def test_only_a_change_of_the_timing_is_a_new_state_of_the_schedule(conn: Connection) -> None:
    dag_id = create(conn, cron="0 2 * * *")
    first = get_job(conn, "t", dag_id)
    named = edit_dag(conn, "t", dag_id, {"policy": "retry", "max_retries": 7})
    assert (named.job.schedule_no, named.version, named.policy) == (first.schedule_no, 2, "retry")
    assert named.job.max_retries == 7
    moved = edit_dag(conn, "t", dag_id, {"every": "1h"})
    assert moved.job.schedule_no != first.schedule_no
    assert (moved.job.timing.schedule.kind, "cron" in moved.definition) == ("every", False)
    stopped = edit_dag(conn, "t", dag_id, {"every": None})
    assert stopped.job.timing.schedule.kind == "none"


def test_a_refused_edit_changes_nothing(conn: Connection) -> None:
    dag_id = create(conn)
    with pytest.raises(UsageError, match="a → b → a"), conn.transaction():
        edit_dag(conn, "t", dag_id, {"tasks": [task("a", "b"), task("b", "a")]})
    assert get_dag(conn, "t", dag_id).version == 1


def test_an_edge_is_added_and_taken_away_by_the_tasks_ids(conn: Connection) -> None:
    dag_id = create(conn, tasks=[task("a"), task("b"), task("c", "b")])
    by_key = ids(conn, dag_id)
    for _ in range(2):
        assert set(add_dependency(conn, "t", by_key["c"], by_key["a"]).parents) == {by_key["a"], by_key["b"]}
        assert get_dag(conn, "t", dag_id).version == 2
    assert edges(conn, dag_id, 2) == {("a", "c"), ("b", "c")}
    assert list(remove_dependency(conn, "t", by_key["c"], by_key["b"]).parents) == [by_key["a"]]
    assert edges(conn, dag_id, 3) == {("a", "c")}
    assert ids(conn, dag_id) == by_key
    with pytest.raises(UsageError, match="a → c → a"), conn.transaction():
        add_dependency(conn, "t", by_key["a"], by_key["c"])
    (alone,) = create_jobs(conn, "t", [parse_posting({"task": "work"})])
    with pytest.raises(ConflictError, match="put both into one DAG"):
        add_dependency(conn, "t", by_key["a"], alone)
    other = ids(conn, create(conn))
    with pytest.raises(ConflictError, match="another root"):
        add_dependency(conn, "t", by_key["a"], other["a"])
    with pytest.raises(NotFoundError):
        add_dependency(conn, "rival", by_key["a"], by_key["b"])


def test_of_two_edges_at_once_that_close_a_cycle_one_is_refused(
    conn: Connection, migrated_database: str
) -> None:
    dag_id = create(conn, tasks=[task("a"), task("b")])
    by_key = ids(conn, dag_id)

    def second(other: Connection) -> None:
        with other.transaction():
            add_dependency(other, "t", by_key["a"], by_key["b"])

    with ExitStack() as stack:
        with conn.transaction():
            add_dependency(conn, "t", by_key["b"], by_key["a"])
            waiting = stack.enter_context(blocked(migrated_database, second))
        with pytest.raises(UsageError, match="a → b → a"):
            waiting.result()
    assert edges(conn, dag_id, 2) == {("a", "b")}
    assert get_dag(conn, "t", dag_id).version == 2


def test_what_is_said_of_a_task_is_said_of_its_dag(conn: Connection) -> None:
    dag_id = create(conn)
    task_id = ids(conn, dag_id)["a"]
    with pytest.raises(ConflictError, match="without a schedule of its own"):
        edit_job(conn, "t", task_id, {"cron": "* * * * *"})
    for say in (pause_job, delete_job):
        with pytest.raises(ConflictError, match="is a task"):
            say(conn, "t", task_id)
    with pytest.raises(ConflictError, match="is a task"):
        trigger_job(conn, "t", task_id, uuid.uuid4().bytes)
    with pytest.raises(ConflictError, match="edit it as one"):
        edit_job(conn, "t", dag_id, {"name": "x"})


def test_pause_resume_delete_are_the_jobs_own(conn: Connection) -> None:
    dag_id = create(conn, every="1h")
    assert pause_dag(conn, "t", dag_id).job.state == "paused"
    assert read_dag(conn, "t", dag_id)["next_at"] is None
    assert pause_dag(conn, "t", dag_id).job.state == "paused"
    assert resume_dag(conn, "t", dag_id).job.state == "active"
    edit_dag(conn, "t", dag_id, {"tasks": DIAMOND[:1]})
    for _ in range(2):
        delete_dag(conn, "t", dag_id)
        states = conn.execute("SELECT kind, state, count(*) FROM shardwheel.jobs GROUP BY 1, 2 ORDER BY 1")
        assert states.fetchall() == [("dag", "deleted", 1), ("task", "deleted", 4)]
    for say in (pause_dag, resume_dag):
        with pytest.raises(NotFoundError):
            say(conn, "t", dag_id)
    with pytest.raises(ConflictError):
        trigger_dag(conn, "t", dag_id, uuid.uuid4().bytes)


def test_a_trigger_names_the_run_before_it_begins(conn: Connection) -> None:
    dag_id, request_id = create(conn), uuid.uuid4().bytes
    run_id = trigger_dag(conn, "t", dag_id, request_id)
    assert trigger_dag(conn, "t", dag_id, request_id) == run_id
    assert partition_of_id(run_id) == partition_of(dag_id)
    shown = read_run(conn, "t", run_id)
    assert (shown["id"], shown["dag_id"], shown["state"]) == (text_of(run_id), text_of(dag_id), "queued")
    assert (shown["origin"], shown["version"], shown["sla_met"]) == ("trigger", None, None)
    assert [(one["key"], one["state"]) for one in shown["tasks"]] == [(key, "pending") for key in "abcd"]


def test_lists_are_paged_and_one_tenants_own_and_jobs_are_not_in_them(conn: Connection) -> None:
    made = [create(conn, name=f"dag-{n}") for n in range(5)]
    create_jobs(conn, "t", [parse_posting({"task": "work", "every": "1h"})])
    first = list_dags(conn, "t", limit=3)
    rest = list_dags(conn, "t", limit=3, cursor=first.next_cursor)
    assert [id_of(dag["id"]) for dag in first.items + rest.items] == sorted(made)
    assert rest.next_cursor is None
    assert "tasks" not in first.items[0]
    assert first.items[0]["task_count"] == 4
    assert list_dags(conn, "rival").items == []
    assert [job.kind for job in list_jobs(conn, "t")] == ["job"]
    delete_dag(conn, "t", made[0])
    assert len(list_dags(conn, "t").items) == 4
    assert [id_of(dag["id"]) for dag in list_dags(conn, "t", DagFilter("deleted")).items] == [made[0]]
    for read in (read_dag, get_dag, pause_dag):
        with pytest.raises(NotFoundError):
            read(conn, "rival", made[1])
    with pytest.raises(UsageError, match="state"):
        list_dags(conn, "t", DagFilter("odd"))


def test_jobs_that_are_no_dags_are_not_read_as_such(conn: Connection) -> None:
    (job_id,) = create_jobs(conn, "t", [parse_posting({"task": "work"})])
    with pytest.raises(NotFoundError, match="no DAG"):
        read_dag(conn, "t", job_id)
    with pytest.raises(NotFoundError, match="no DAG"):
        list_runs(conn, "t", RunFilter(job_id))


def test_a_shard_does_not_hold_tasks(conn: Connection) -> None:
    dag_id = create(conn, every="1h")
    held = conn.execute("SELECT job_id FROM shardwheel.job_entries").fetchall()
    assert held == [(dag_id,)]


def test_the_api_stores_and_reads_under_its_own_role(conn: Connection) -> None:
    with conn.transaction():
        conn.execute("SELECT set_config('role', 'shardwheel_api', true)")
        conn.execute("SELECT set_config('shardwheel.tenant', 't', true)")
        dag_id = create(conn, every="1h")
        edit_dag(conn, "t", dag_id, {"tasks": DIAMOND[:2]})
        assert read_dag(conn, "t", dag_id)["version"] == 2
        assert len(list_dags(conn, "t").items) == 1
        read_run(conn, "t", trigger_dag(conn, "t", dag_id, uuid.uuid4().bytes))
        delete_dag(conn, "t", dag_id)
