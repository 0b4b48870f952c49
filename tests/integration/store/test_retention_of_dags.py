"""Retention of what DAGs leave, on real PostgreSQL: runs go whole, and nothing that may go on runs again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from trio.testing import trio_test

from shardwheel.dag import parse_dag
from shardwheel.errors import NotFoundError
from shardwheel.keeping import Keep
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_hands import rerun
from shardwheel.store.dags import create_dag, delete_dag, edit_dag, trigger_dag
from shardwheel.store.retention import FROM_THE_OLDEST, OTHERS, retire_executions, retire_others
from shardwheel.wire import Outcome
from tests.contract.dag_scene import HAND, Dag, DagScene, Shape, dag_scene
from tests.contract.loop_rig import LoopRig, postgres_loop_rig
from tests.integration.store.dag_race import Connection

pytestmark = pytest.mark.servers

KEEP = Keep(*(timedelta(days=days) for days in (7, 10, 14, 365, 30)))
DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
TABLES = ("dag_runs", "dag_counters", "dag_fans", "executions")


@pytest.fixture
def rig(migrated_database: str) -> Iterator[LoopRig]:
    with postgres_loop_rig(migrated_database) as rig:
        yield rig


def grow_older(conn: Connection, days: float) -> None:
    """Everything there is happened so many days earlier than it did; every fire has met the claim."""
    conn.execute("SET LOCAL session_replication_role = replica")
    age = {"age": timedelta(days=days)}
    for table, columns in (
        ("executions", ("due_at", "started_at", "ended_at")),
        ("dag_runs", ("started_at", "ended_at")),
        ("dag_versions", ("created_at",)),
        ("jobs", ("effective_from", "deleted_at")),
    ):
        changes = ", ".join(f"{column} = {column} - %(age)s" for column in columns)
        conn.execute(f"UPDATE shardwheel.{table} SET {changes}".encode(), age)  # noqa: S608
    conn.execute(
        "UPDATE shardwheel.partitions SET floor_ms = shardwheel.now_ms(), floor_xid = pg_current_xact_id()"
    )


def retire(conn: Connection) -> Counter[str]:
    """Whatever may go, in batches, as the service removes it."""
    gone: Counter[str] = Counter()
    conn.execute("UPDATE shardwheel.retention SET gone_through_ms = 0")
    for name in OTHERS:
        while count := retire_others(conn, name, KEEP):
            gone[name] += count
    gone["executions"] += retire_executions(conn, KEEP, FROM_THE_OLDEST).gone
    return gone


def batch(conn: Connection, name: str, most: int) -> int:
    return retire_others(conn, name, KEEP, most=most)


def left(conn: Connection, *tables: str) -> list[int]:
    found = [conn.execute(f"SELECT count(*) FROM shardwheel.{table}".encode()) for table in tables]  # noqa: S608
    return [row[0] for cursor in found for row in cursor.fetchall()]


async def played(s: DagScene, dag: Dag, deeds: dict[str, Any], days_ago: int) -> bytes:
    run_id = await s.start(dag, -days_ago * 86_400_000)
    await s.play(dag, deeds)
    return run_id


@trio_test
async def test_what_succeeded_stays_as_long_as_its_run_may_go_on(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND, policy="continue"))
        run_id = await played(s, dag, {"c": Outcome.FATAL}, 40)
        await rig.run(grow_older, 9)
        assert (await rig.run(retire))["executions"] == 0
        await s.hand(rerun, run_id)
        assert await s.play(dag) == ["c", "d"]
        assert (await s.run_state(run_id))[0] == "succeeded"


@trio_test
async def test_a_run_goes_whole_when_no_letter_of_it_is_left(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        shape = Shape({"list": (), "each": ("list",), "join": ("each",)}, frozenset({"each"}), "continue")
        dag = await s.plant(shape)
        deeds = {"list": (Outcome.SUCCEEDED, [1, 2])}
        failed = await played(s, dag, deeds | {"join": Outcome.FATAL}, 40)
        await played(s, dag, deeds, 41)
        await rig.run(grow_older, 8)
        assert (await rig.run(retire))["retire_runs"] == 1
        assert await rig.run(left, *TABLES) == [1, 2, 1, 6]
        await rig.run(grow_older, 5)  # As a failed execution it might go, but its letter is still there.
        assert (await rig.run(retire))["retire_runs"] == 0
        await rig.run(grow_older, 2)
        assert (await rig.run(retire))["retire_runs"] == 1
        assert await rig.run(left, *TABLES) == [0, 0, 0, 0]
        with pytest.raises(NotFoundError):
            await rig.run(rerun, HAND, failed)


@trio_test
async def test_runs_go_in_batches_of_about_so_many_tasks(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND))
        for number in range(3):
            await played(s, dag, {}, 40 + number)
        going_on = await s.start(dag, -39 * 86_400_000)
        await rig.run(grow_older, 8)
        assert await rig.run(batch, "retire_runs", 11) == 2
        assert await rig.run(batch, "retire_runs", 1) == 1
        assert await rig.run(batch, "retire_runs", 1) == 0
        assert (await s.run_state(going_on))[0] == "running"


@trio_test
async def test_a_version_goes_with_its_last_run_and_its_tasks_with_their_last_version(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        tasks = [{"key": key, "task": "work"} for key in "ab"]
        dag_id = await rig.run(create_dag, "t", parse_dag({"tasks": tasks}))
        await rig.run(trigger_dag, "t", dag_id, b"r" * 16)
        await s.claim(*await s.waiting())
        changed = [tasks[0], tasks[1] | {"params": {"x": 1}}]
        await rig.run(edit_dag, "t", dag_id, {"tasks": changed})
        await rig.run(edit_dag, "t", dag_id, {"policy": "continue"})
        await rig.run(grow_older, 31)
        assert await rig.run(batch, "retire_versions", 1) == 1  # The second: no run has it.
        assert await rig.run(batch, "retire_versions", 10_000) == 0
        assert await rig.run(states_of_tasks, dag_id) == [("active", 3)]
        waiting = await s.claim_waiting()
        dag = Dag(await s.job(dag_id), {})
        named = dag._replace(tasks={str(number): one.job_id for number, one in enumerate(waiting)})
        await s.store.settle([s.result(named, one, {}) for one in waiting])
        await rig.run(grow_older, 31)
        gone = await rig.run(retire)
        assert (gone["retire_runs"], gone["retire_versions"]) == (1, 1)
        assert await rig.run(states_of_tasks, dag_id) == [("active", 2), ("deleted", 1)]
        assert await rig.run(left, "dag_versions", "dag_tasks", "dag_edges") == [1, 2, 0]


@trio_test
async def test_nothing_is_left_of_a_dag_that_was_deleted(rig: LoopRig) -> None:
    async with dag_scene(rig):
        tasks = [{"key": "a", "task": "work"}, {"key": "b", "task": "work", "depends_on": ["a"]}]
        dag_id = await rig.run(create_dag, "t", parse_dag({"tasks": tasks}))
        await rig.run(delete_dag, "t", dag_id)
        await rig.run(grow_older, 31)
        assert (await rig.run(retire))["retire_jobs"] == 3
        await rig.run(retire)
        assert await rig.run(left, "jobs", "dag_versions", "dag_tasks", "dag_edges") == [0, 0, 0, 0]


def states_of_tasks(conn: Connection, dag_id: bytes) -> list[tuple[str, int]]:
    return conn.execute(
        "SELECT state, count(*) FROM shardwheel.jobs WHERE dag_id = %s AND kind = 'task'"
        " GROUP BY 1 ORDER BY 1",
        [Uuid(dag_id)],
    ).fetchall()
