"""Random DAGs under random edits, on the twin: each version is what was posted, and stays so."""

from __future__ import annotations

from typing import Any, cast

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwheel.dag import parse_dag, says_the_same
from shardwheel.memory.connection import MemoryConnection
from shardwheel.memory.dag_rows import DAG_EDGES, DAG_TASKS
from shardwheel.memory.loop_store import loop_server
from shardwheel.store.dag_reading import get_dag, task_ids_of
from shardwheel.store.dags import create_dag, edit_dag

Tasks = list[dict[str, Any]]


@st.composite
def tasks(draw: st.DrawFn) -> Tasks:
    """Some of six keys, in any order; parents are among those before, and params one of few."""
    keys = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    made: Tasks = []
    for place, key in enumerate(keys):
        parents = draw(st.lists(st.sampled_from(keys[:place]), unique=True)) if place else []
        fan_out = len(parents) == 1 and not any(one["key"] in parents and one["fan_out"] for one in made)
        fields = {"depends_on": parents, "params": {"x": draw(st.integers(0, 1))}}
        made.append({"key": key, "task": "work", "fan_out": fan_out and draw(st.booleans())} | fields)
    return draw(st.permutations(made))


def stored(server: Any, version: int) -> dict[str, tuple[bool, int, frozenset[str]]]:
    """Of each task whether it fans out, its in-degree, and its parents."""
    rows = {row.task_id: row for row in server.tables[DAG_TASKS].values() if row.version == version}
    edges = [edge for edge in server.tables[DAG_EDGES].values() if edge.version == version]
    return {
        row.task_key: (
            row.fan_out,
            row.in_degree,
            frozenset(rows[edge.parent_id].task_key for edge in edges if edge.child_id == row.task_id),
        )
        for row in rows.values()
    }


def posted(said: Tasks) -> dict[str, tuple[bool, int, frozenset[str]]]:
    return {
        task["key"]: (task["fan_out"], len(task["depends_on"]), frozenset(task["depends_on"]))
        for task in said
    }


@given(st.lists(tasks(), min_size=1, max_size=5))
@settings(max_examples=60)
def test_versions_are_what_was_posted_and_unchanged_tasks_keep_their_jobs(history: list[Tasks]) -> None:
    trio.run(check, history)


async def check(history: list[Tasks]) -> None:
    server = loop_server(partitions=1)
    transaction = server.begin()
    conn = cast(Any, MemoryConnection(transaction))
    dag_id = create_dag(conn, "t", parse_dag({"tasks": history[0]}))
    versions, ids = [history[0]], [task_ids_of(conn, get_dag(conn, "t", dag_id))]
    for said in history[1:]:
        dag = edit_dag(conn, "t", dag_id, {"tasks": said})
        if said != versions[-1]:
            versions.append(said)
            ids.append(task_ids_of(conn, dag))
        assert dag.version == len(versions)
    transaction.commit()
    for number, said in enumerate(versions, start=1):
        assert stored(server, number) == posted(said)
    for before, after, had, has in zip(versions, versions[1:], ids, ids[1:], strict=False):
        old = {task["key"]: task for task in before}
        for task in after:
            kept = task["key"] in old and says_the_same(old[task["key"]], task)
            assert (had.get(task["key"]) == has[task["key"]]) is kept
