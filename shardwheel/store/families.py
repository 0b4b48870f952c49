"""A job with children as rows: which family a job belongs to, its latest version, and the next one.

Whoever changes a family holds its root's row: so of two edges that would close a cycle together, the second
sees the first. The root is locked before its children, whose ids are greater: the order of the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.errors import ConflictError, NotFoundError
from shardwheel.family import Family, Member, key_for
from shardwheel.ids import fire_id, text_of
from shardwheel.job import JobState
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.dag_reading import dag_of, task_ids_of
from shardwheel.store.dag_versions import Place, Version, Whose, add_version
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import lock_job
from shardwheel.store.sql import sql

_Connection = Connection[Any]
# A child that died fails those that wait for it; the others go on.
POLICY = "continue"


class Kin(NamedTuple):
    """What a job is, and the DAG or the job at its root; its own id of a job that has no parents."""

    job_id: bytes
    kind: str
    root_id: bytes


def find_kin(conn: _Connection, tenant_id: str, job_ids: Sequence[bytes]) -> dict[bytes, Kin]:
    """Of those that there are."""
    if not job_ids:
        return {}
    given = {"tenant_id": tenant_id, "job_ids": Uuids(job_ids)}
    rows = conn.execute(sql("families_of"), given, prepare=False)
    return {row[0]: Kin(*row) for row in rows}


def kin_of(conn: _Connection, tenant_id: str, job_ids: Sequence[bytes], field: str) -> dict[bytes, Kin]:
    """Of all of these, or refused: there is no such job."""
    found = find_kin(conn, tenant_id, job_ids)
    for job_id in job_ids:
        if job_id not in found:
            raise NotFoundError(f"{field}: there is no job {text_of(job_id)}", field=field)
        if found[job_id].kind == "dag":
            problem = f"job {text_of(job_id)} is a DAG, which nothing can wait for; name one of its tasks"
            raise ConflictError(f"{field}: {problem}", field=field)
    return found


def lock_root(conn: _Connection, tenant_id: str, root_id: bytes, field: str) -> JobRow:
    """The root, held against claims and every other change of its family."""
    root = lock_job(conn, tenant_id, root_id)
    if root.state == JobState.DELETED:
        raise NotFoundError(f"{field}: job {text_of(root_id)} is deleted", field=field)
    return root


def refuse_spent(conn: _Connection, root: JobRow) -> None:
    """A job that will not run again: whoever waits for it would wait for ever."""
    once_id = fire_id(root.job_id, root.partition, root.anchor_ms or 0)
    is_begun = (
        root.timing.schedule.kind == "once"
        and conn.execute(sql("has_begun"), {"execution_id": Uuid(once_id)}).fetchone()
    )
    if root.state == JobState.COMPLETED or is_begun:
        problem = f"job {text_of(root.job_id)} has begun its last run: a child would wait for ever"
        remedy = "create both as one DAG, or give the parent a time to come"
        raise ConflictError(f"parents: {problem}; {remedy}", field="parents")


def read_family(conn: _Connection, root: JobRow) -> Family:
    """The latest version of a locked root; of one that never had children, itself alone."""
    if conn.execute(sql("read_dag_version"), _of(root)).fetchone() is None:
        own = Member(root.job_id, key_for(root.name, root.job_id, ()), root.task)
        return Family(root.job_id, 0, {root.job_id: own})
    dag = dag_of(conn, root)
    ids = task_ids_of(conn, dag)
    members = [
        Member(ids[task["key"]], task["key"], task["task"], tuple(ids[key] for key in task["depends_on"]))
        for task in dag.definition["tasks"]
    ]
    return Family(root.job_id, dag.version, {one.job_id: one for one in members})


def write_family(conn: _Connection, root: JobRow, family: Family) -> None:
    """As the next version: runs that begin from now on have it."""
    places = [Place(one.job_id, one.key, one.parents) for one in family.members.values()]
    add_version(conn, Whose.of(root), Version(family.version + 1, family.definition(), places, POLICY))
    if root.has_children == family.is_alone:
        given = {"job_id": Uuid(root.job_id), "has_children": not family.is_alone}
        conn.execute(sql("set_root"), given)


def _of(root: JobRow) -> dict[str, Any]:
    return {"tenant_id": root.tenant_id, "dag_id": Uuid(root.job_id), "version": None}
