"""One edge more, or one less, between two jobs of a family: tasks of one DAG, or a job and its children.

The root's row is locked before its edges are read. So of two edges that would close a cycle together, the
second sees the first, and is refused. Said twice, the second changes nothing and makes no version.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.errors import ConflictError
from shardwheel.family import Family
from shardwheel.ids import text_of
from shardwheel.store.alterations import By
from shardwheel.store.audit import write_audit
from shardwheel.store.dag_reading import dag_of, task_ids_of
from shardwheel.store.dags import edit_dag
from shardwheel.store.families import Kin, kin_of, lock_root, read_family, write_family
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import get_job

_Connection = Connection[Any]
_PARENT = "parent_id"


def add_dependency(conn: _Connection, tenant_id: str, child_id: bytes, parent_id: bytes) -> JobRow:
    """From the root's next run on, the child waits for the parent too."""
    return _change(conn, tenant_id, child_id, parent_id, is_edge=True)


def remove_dependency(conn: _Connection, tenant_id: str, child_id: bytes, parent_id: bytes) -> JobRow:
    """From the root's next run on, the child does not wait for the parent."""
    return _change(conn, tenant_id, child_id, parent_id, is_edge=False)


def set_dependency(
    conn: _Connection, tenant_id: str, child_id: bytes, by: By, parent_id: bytes, is_edge: bool
) -> JobRow:
    """The same by somebody, on record."""
    before = get_job(conn, tenant_id, child_id)
    by.allowed(before.task)
    after = _change(conn, tenant_id, child_id, parent_id, is_edge=is_edge)
    if before.parents != after.parents:
        action = "job.depend" if is_edge else "job.undepend"
        details = {"before": {"parents": _texts(before)}, "after": {"parents": _texts(after)}}
        write_audit(conn, tenant_id, by.actor, action, "job", text_of(child_id), details)
    return after


def _texts(job: JobRow) -> list[str]:
    return [text_of(parent) for parent in job.parents]


def _change(conn: _Connection, tenant_id: str, child_id: bytes, parent_id: bytes, *, is_edge: bool) -> JobRow:
    (child,) = kin_of(conn, tenant_id, [child_id], "id").values()
    (parent,) = kin_of(conn, tenant_id, [parent_id], _PARENT).values()
    _refuse_strangers(child, parent)
    root = lock_root(conn, tenant_id, child.root_id, "id")
    change = _change_dag if root.kind == "dag" else _change_family
    change(conn, root, child_id, parent_id, is_edge)
    return get_job(conn, tenant_id, child_id)


def _refuse_strangers(child: Kin, parent: Kin) -> None:
    if child.root_id == parent.root_id:
        return
    if child.kind == "job":
        problem = f"job {text_of(child.job_id)} has a schedule of its own, and a job with parents has none"
        raise ConflictError(f"id: {problem}; create it anew with parents", field="id")
    problem = f"job {text_of(parent.job_id)} belongs to another root"
    raise ConflictError(f"parent_id: {problem}; put both into one DAG", field=_PARENT)


def _change_family(conn: _Connection, root: JobRow, child_id: bytes, parent_id: bytes, is_edge: bool) -> None:
    family = read_family(conn, root)
    for job_id in (child_id, parent_id):
        _refuse_a_stranger(job_id, job_id in family.members)
    changed = _with_edge(family, child_id, parent_id) if is_edge else _without(family, child_id, parent_id)
    if changed.members != family.members:
        write_family(conn, root, changed)


def _with_edge(family: Family, child_id: bytes, parent_id: bytes) -> Family:
    if parent_id in family.members[child_id].parents:
        return family
    changed = family.with_edge(child_id, parent_id)
    changed.check(_PARENT)
    return changed


def _without(family: Family, child_id: bytes, parent_id: bytes) -> Family:
    if family.members[child_id].parents == (parent_id,):
        problem = f"job {text_of(parent_id)} is the only parent of {text_of(child_id)}, which has no schedule"
        raise ConflictError(f"parent_id: {problem}; give it another first, or delete it", field=_PARENT)
    return family.without_edge(child_id, parent_id)


def _change_dag(conn: _Connection, root: JobRow, child_id: bytes, parent_id: bytes, is_edge: bool) -> None:
    dag = dag_of(conn, root)
    keys = {task_id: key for key, task_id in task_ids_of(conn, dag).items()}
    for job_id in (child_id, parent_id):
        _refuse_a_stranger(job_id, job_id in keys)
    tasks = [dict(task) for task in dag.definition["tasks"]]
    (task,) = [task for task in tasks if task["key"] == keys[child_id]]
    parents, key = task.get("depends_on", []), keys[parent_id]
    if (key in parents) == is_edge:
        return
    task["depends_on"] = [*parents, key] if is_edge else [one for one in parents if one != key]
    edit_dag(conn, root.tenant_id, root.job_id, {"tasks": tasks})


def _refuse_a_stranger(job_id: bytes, is_known: bool) -> None:
    if not is_known:
        problem = f"job {text_of(job_id)} is not in the latest version of its DAG: it was deleted or replaced"
        raise ConflictError(f"{problem}; read it again", field="id")
