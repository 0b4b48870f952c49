"""One edge more, or one less, between two tasks of a DAG: an edit like any other, by the tasks' ids.

Both lock the DAG's row before they read its edges. So of two edges that would close a cycle together, the
second sees the first, and is refused. Said twice, the second changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import Connection

from shardwheel.errors import ConflictError
from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_reading import dag_of, task_ids_of
from shardwheel.store.dag_row import DagRow
from shardwheel.store.dags import edit_dag
from shardwheel.store.jobs import get_job, locked_job
from shardwheel.store.sql import sql

_Connection = Connection[Any]


def add_dependency(conn: _Connection, tenant_id: str, child_id: bytes, parent_id: bytes) -> DagRow:
    """From its DAG's next run on, the child waits for the parent too."""
    return _change(conn, tenant_id, child_id, parent_id, lambda parents, key: [*parents, key])


def remove_dependency(conn: _Connection, tenant_id: str, child_id: bytes, parent_id: bytes) -> DagRow:
    """From its DAG's next run on, the child does not wait for the parent."""
    return _change(conn, tenant_id, child_id, parent_id, lambda parents, key: parents)


def _change(
    conn: _Connection,
    tenant_id: str,
    child_id: bytes,
    parent_id: bytes,
    change: Callable[[list[str], str], list[str]],
) -> DagRow:
    dag_id, child = _place(conn, tenant_id, child_id)
    parents_dag_id, parent = _place(conn, tenant_id, parent_id)
    if dag_id != parents_dag_id:
        raise ConflictError("parent_id: is a task of another DAG; put both into one DAG", field="parent_id")
    dag = dag_of(conn, locked_job(conn, tenant_id, dag_id))
    ids = task_ids_of(conn, dag)
    for key, job_id in ((child, child_id), (parent, parent_id)):
        if ids.get(key) != job_id:
            problem = f"job {text_of(job_id)} is no task of its DAG's latest version; read the DAG again"
            raise ConflictError(problem, field="id")
    tasks = [dict(task) for task in dag.definition["tasks"]]
    for task in tasks:
        if task["key"] == child:
            others = [key for key in task.get("depends_on", []) if key != parent]
            task["depends_on"] = change(others, parent)
    return edit_dag(conn, tenant_id, dag_id, {"tasks": tasks})


def _place(conn: _Connection, tenant_id: str, job_id: bytes) -> tuple[bytes, str]:
    """Which DAG it is a task of, and under which key."""
    values = {"tenant_id": tenant_id, "job_id": Uuid(job_id)}
    row = conn.execute(sql("dag_of_task"), values).fetchone()
    if row is None:
        get_job(conn, tenant_id, job_id)
        problem = f"job {text_of(job_id)} is no task of a DAG; create a DAG with both as its tasks"
        raise ConflictError(problem, field="id")
    dag_id, key = row
    return bytes(dag_id), key
