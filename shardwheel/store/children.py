"""Jobs with parents: stored, and deleted. On the caller's own transaction.

    root (every 1h) ── a ── b        POST {"task": …, "parents": [root]}, then {"task": …, "parents": [a]}

A child lives in its root's partition, without a schedule; whenever the root runs, by schedule, trigger or
backfill, it runs once, when all its parents are over. With a DAG's task among its parents it becomes a task
of that DAG: an edit of it. Each change is a version: runs under way keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg import Connection

from shardwheel.dag import EXECUTION_FIELDS
from shardwheel.errors import ConflictError, NotFoundError
from shardwheel.family import Member, key_for
from shardwheel.ids import id_of, new_job_id, scheduled_ms_of, text_of
from shardwheel.job import JobState
from shardwheel.posting import JobPosting
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_reading import dag_of, get_dag, task_ids_of
from shardwheel.store.dag_versions import Whose, create_tasks
from shardwheel.store.dags import edit_dag
from shardwheel.store.families import (
    Kin,
    find_kin,
    kin_of,
    lock_root,
    read_family,
    refuse_spent,
    write_family,
)
from shardwheel.store.held import skip_held
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, get_job, lock_job, read_now_ms, refuse_a_task
from shardwheel.store.sql import sql
from shardwheel.times import refuse

_Connection = Connection[Any]
_FIELD = "parents"


def store_jobs(conn: _Connection, tenant_id: str, postings: Sequence[JobPosting]) -> list[bytes]:
    """Store new jobs, with parents or without, all or none; their ids, in the order of the postings."""
    if not any(posting.parents for posting in postings):
        return create_jobs(conn, tenant_id, postings)
    lock_roots(conn, tenant_id, postings)
    kin = kin_of(conn, tenant_id, [one for posting in postings for one in parents_of(posting)], _FIELD)
    by_root: dict[bytes | None, list[int]] = {}
    for number, posting in enumerate(postings):
        by_root.setdefault(_root_of(posting, kin), []).append(number)
    made: dict[int, bytes] = {}
    for root_id, numbers in by_root.items():
        ids = _store(conn, tenant_id, root_id, [postings[number] for number in numbers])
        made |= dict(zip(numbers, ids, strict=True))
    return [made[number] for number in range(len(postings))]


def _store(
    conn: _Connection, tenant_id: str, root_id: bytes | None, postings: Sequence[JobPosting]
) -> list[bytes]:
    """Those of one root, or those without parents."""
    if root_id is None:
        return create_jobs(conn, tenant_id, postings)
    root = lock_root(conn, tenant_id, root_id, _FIELD)
    return (_add_tasks if root.kind == "dag" else _add_children)(conn, root, postings)


def lock_roots(conn: _Connection, tenant_id: str, postings: Sequence[JobPosting]) -> None:
    """Lock what all of these will lock, in key order: two batches never wait for each other in a circle.
    What is not there is somebody else's to refuse: a posting may be the repeat of one that was stored."""
    parents = [parent for posting in postings for parent in parents_of(posting)]
    for root_id in sorted({one.root_id for one in find_kin(conn, tenant_id, parents).values()}):
        lock_job(conn, tenant_id, root_id)


def parents_of(posting: JobPosting) -> list[bytes]:
    return [id_of(parent, field=_FIELD) for parent in posting.parents or ()]


def delete_child(conn: _Connection, tenant_id: str, job_id: bytes) -> None:
    """It is left out from its root's next run on, and of those under way it is skipped. Said twice, the
    same. Refused while somebody has no other parent."""
    root_id = get_job(conn, tenant_id, job_id).dag_id or job_id
    root = lock_job(conn, tenant_id, root_id)
    child = lock_job(conn, tenant_id, job_id)
    if root.kind == "dag":
        refuse_a_task(child)
    if child.state == JobState.DELETED:
        return
    family = read_family(conn, root)
    if orphans := family.orphans_without(job_id):
        problem = f"job {text_of(job_id)} is the only parent of {text_of(orphans[0].job_id)}"
        more = f" and {len(orphans) - 1} more" if len(orphans) > 1 else ""
        raise ConflictError(f"{problem}{more}; delete them first, or give them another parent", field="id")
    conn.execute(sql("change_state"), {"job_id": Uuid(job_id), "state": JobState.DELETED})
    skip_held(conn, job_id)
    write_family(conn, root, family.without(job_id))


def _root_of(posting: JobPosting, kin: Mapping[bytes, Kin]) -> bytes | None:
    roots = sorted({kin[parent].root_id for parent in parents_of(posting)})
    if len(roots) > 1:
        problem = f"belong to different roots, {text_of(roots[0])} and {text_of(roots[1])}"
        raise ConflictError(f"parents: {problem}; put them into one DAG", field=_FIELD)
    return roots[0] if roots else None


def _add_children(conn: _Connection, root: JobRow, postings: Sequence[JobPosting]) -> list[bytes]:
    """New jobs under a job, and one new version with all of them."""
    refuse_spent(conn, root)
    family = read_family(conn, root)
    # Greater than the root's own, whatever the clock says: parents are locked before children.
    now_ms = max(read_now_ms(conn), scheduled_ms_of(root.job_id) + 1)
    taken, added, columns = family.keys, [], []
    for posting in postings:
        child = _member(posting, new_job_id(now_ms), taken)
        for parent in child.parents:
            if parent not in family.members:
                raise NotFoundError(f"parents: job {text_of(parent)} is deleted", field=_FIELD)
        taken.add(child.key)
        added.append(child)
        columns.append(posting.columns() | {"job_id": text_of(child.job_id), "task_key": child.key})
    grown = family.with_members(added)
    grown.check(_FIELD)
    create_tasks(conn, Whose.of(root), columns)
    write_family(conn, root, grown)
    return [child.job_id for child in added]


def _member(posting: JobPosting, job_id: bytes, taken: set[str]) -> Member:
    key = key_for(posting.name, job_id, taken)
    return Member(job_id, key, posting.task, tuple(parents_of(posting)))


def _add_tasks(conn: _Connection, root: JobRow, postings: Sequence[JobPosting]) -> list[bytes]:
    """New tasks of a DAG: an edit of it."""
    dag = dag_of(conn, root)
    keys = {task_id: key for key, task_id in task_ids_of(conn, dag).items()}
    taken, tasks = set(keys.values()), []
    for posting in postings:
        unknown = [parent for parent in parents_of(posting) if parent not in keys]
        if unknown:
            problem = f"job {text_of(unknown[0])} is no task of its DAG's latest version"
            raise ConflictError(f"parents: {problem}; read the DAG again", field=_FIELD)
        key = key_for(posting.name, new_job_id(read_now_ms(conn)), taken)
        taken.add(key)
        tasks.append(_as_task(posting, key, [keys[parent] for parent in parents_of(posting)]))
    edit_dag(conn, root.tenant_id, root.job_id, {"tasks": [*dag.definition["tasks"], *tasks]})
    ids = task_ids_of(conn, get_dag(conn, root.tenant_id, root.job_id))
    return [ids[task["key"]] for task in tasks]


def _as_task(posting: JobPosting, key: str, depends_on: list[str]) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(posting)
    for name in sorted(said.keys() - EXECUTION_FIELDS - {"name", "parents", "idempotency_key"}):
        refuse(name, "a task of a DAG has none", "leave it out")
    fields = {name: said[name] for name in EXECUTION_FIELDS & said.keys()}
    return fields | {"key": key, "depends_on": depends_on}
