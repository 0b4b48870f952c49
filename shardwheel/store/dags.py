"""DAGs as people state them: create, edit, pause, resume, delete, trigger. On the caller's own transaction.

A DAG is a job without a handler; its tasks are jobs in its partition, without a schedule. Each edit makes a
version: a task that says the same as before keeps its job, one that says something else gets a new one, and
a run goes on with the version that it began with.

    version 1: extract → load                 jobs e, l
    version 2: extract → check → load         jobs e, c, l: only the edges and c are new
    version 3: extract with other params      jobs e′, c, l: runs of 1 and 2 still have e

The DAG's row is locked first, then its tasks', whose ids are greater: the order of the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from psycopg import Connection

from shardwheel.dag import DAG_TIMING_FIELDS, DagPosting, merged, parse_dag, says_the_same
from shardwheel.ids import new_job_id, scheduled_ms_of, text_of
from shardwheel.partition import partition_of
from shardwheel.store.dag_reading import dag_of, get_dag, require_dag, task_ids_of
from shardwheel.store.dag_row import DagRow
from shardwheel.store.dag_versions import Place, Version, Whose, add_version, create_tasks
from shardwheel.store.forms import timing_columns
from shardwheel.store.jobs import (
    delete_job,
    limit_runs,
    locked_job,
    pause_job,
    read_now_ms,
    resume_job,
    write_edit,
)
from shardwheel.store.requests import trigger_job
from shardwheel.store.sql import sql

_Connection = Connection[Any]


def create_dag(conn: _Connection, tenant_id: str, posting: DagPosting) -> bytes:
    """Store a new DAG with all its tasks, or nothing; its id."""
    now_ms = read_now_ms(conn)
    timing = posting.timing(now_ms)
    dag_id, *task_ids = sorted(new_job_id(now_ms) for _ in (posting, *posting.tasks))
    whose = Whose(tenant_id, dag_id, partition_of(dag_id))
    columns = msgspec.json.encode(posting.columns() | timing_columns(timing)).decode()
    ((effective_from_ms,),) = conn.execute(sql("create_dag"), whose.values() | {"dag": columns})
    limit_runs(conn, dag_id, timing, effective_from_ms)
    by_key = {task.key: task_id for task, task_id in zip(posting.tasks, task_ids, strict=True)}
    _create_tasks(conn, whose, posting, by_key)
    _add_version(conn, whose, 1, posting, by_key)
    return dag_id


def edit_dag(
    conn: _Connection,
    tenant_id: str,
    dag_id: bytes,
    changes: Mapping[str, Any],
    check: Callable[[DagPosting], None] = lambda posting: None,
) -> DagRow:
    """Apply posted fields to a DAG, as a new version; `tasks` are given whole. What changes nothing makes
    none. Only a change of its timing gives the schedule a new state. `check` may refuse what it becomes."""
    require_dag(conn, tenant_id, dag_id)
    old = dag_of(conn, locked_job(conn, tenant_id, dag_id))
    posting = parse_dag(merged(old.definition, changes))
    if posting.definition == old.definition:
        return old
    check(posting)
    now_ms = read_now_ms(conn)
    before, after = old.definition, posting.definition
    is_rescheduled = any(before.get(name) != after.get(name) for name in DAG_TIMING_FIELDS)
    write_edit(conn, old.job, posting.columns(), posting.timing(now_ms) if is_rescheduled else None, now_ms)
    whose = Whose.of(old.job)
    kept = _kept(conn, old, posting)
    # Greater than the DAG's own, whatever the clock says: it is locked before its tasks.
    after_ms = max(now_ms, scheduled_ms_of(dag_id) + 1)
    added = {task.key: new_job_id(after_ms) for task in posting.tasks if task.key not in kept}
    _create_tasks(conn, whose, posting, added)
    _add_version(conn, whose, old.version + 1, posting, kept | added)
    return get_dag(conn, tenant_id, dag_id)


def pause_dag(conn: _Connection, tenant_id: str, dag_id: bytes) -> DagRow:
    """From the acknowledgement on no run begins, and of those under way no task; a run by trigger does."""
    require_dag(conn, tenant_id, dag_id)
    return dag_of(conn, pause_job(conn, tenant_id, dag_id))


def resume_dag(conn: _Connection, tenant_id: str, dag_id: bytes) -> DagRow:
    """Go on from now, with what was held too."""
    require_dag(conn, tenant_id, dag_id)
    return dag_of(conn, resume_job(conn, tenant_id, dag_id))


def delete_dag(conn: _Connection, tenant_id: str, dag_id: bytes) -> None:
    """The DAG and its tasks stay as tombstones until retention; nothing of it starts any more."""
    require_dag(conn, tenant_id, dag_id)
    delete_job(conn, tenant_id, dag_id)


def trigger_dag(
    conn: _Connection,
    tenant_id: str,
    dag_id: bytes,
    request_id: bytes,
    params: Mapping[str, Any] | None = None,
) -> bytes:
    """Run the DAG now, paused or not; the run's id. The same request id is the same run. `params` go over
    those of each task, in this run."""
    require_dag(conn, tenant_id, dag_id)
    return trigger_job(conn, tenant_id, dag_id, request_id, params)


def _kept(conn: _Connection, old: DagRow, posting: DagPosting) -> dict[str, bytes]:
    """The jobs of tasks that say what they said before, by key."""
    before = {task["key"]: task for task in old.definition["tasks"]}
    after = {task["key"]: task for task in posting.definition["tasks"]}
    ids = task_ids_of(conn, old)
    return {key: ids[key] for key in before.keys() & after.keys() if says_the_same(before[key], after[key])}


def _create_tasks(conn: _Connection, whose: Whose, posting: DagPosting, ids: Mapping[str, bytes]) -> None:
    columns = {task.key: task.columns() for task in posting.tasks if task.key in ids}
    create_tasks(conn, whose, [columns[key] | {"job_id": text_of(task_id)} for key, task_id in ids.items()])


def _add_version(
    conn: _Connection, whose: Whose, number: int, posting: DagPosting, ids: Mapping[str, bytes]
) -> None:
    places = [
        Place(ids[task.key], task.key, [ids[parent] for parent in task.depends_on], task.fan_out)
        for task in posting.tasks
    ]
    columns = posting.columns()
    retrying = columns["max_retries"], columns["backoff"]
    version = Version(number, posting.definition, places, posting.policy, posting.sla_ms, *retrying)
    add_version(conn, whose, version)
