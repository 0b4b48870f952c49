"""A change to a DAG or to one of its runs by somebody, on record: what it was before and what it is after.

As `alterations` does for a job: the DAG is locked first, so `before` is true, and what changes nothing is not
put on record. Whoever is limited to some task types must be allowed every one that the DAG has, before and
after. What a run's hands change they put on record themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.dag import DagPosting
from shardwheel.errors import ConflictError, NotFoundError
from shardwheel.execution import Resolved
from shardwheel.ids import id_of, new_request_id, text_of
from shardwheel.job import JobState
from shardwheel.store import dag_hands
from shardwheel.store.alterations import By
from shardwheel.store.arrays import Uuid
from shardwheel.store.audit import write_audit
from shardwheel.store.dag_reading import dag_of, get_dag, get_run, require_dag
from shardwheel.store.dag_row import DagRow
from shardwheel.store.dags import create_dag, delete_dag, edit_dag, pause_dag, resume_dag
from shardwheel.store.execution_requests import cancel_on_record
from shardwheel.store.idempotency import Stored, make_once, once_of_job
from shardwheel.store.jobs import get_job, lock_job
from shardwheel.store.requests import Cancelled, trigger_once
from shardwheel.store.sql import sql

_Connection = Connection[Any]
MOST_TOLD = 100


class OfRun(NamedTuple):
    """Which run, and of which DAG it must be."""

    dag_id: bytes
    run_id: bytes


def create(conn: _Connection, tenant_id: str, by: By, posting: DagPosting, key: str | None) -> bytes:
    """The DAG's id; with a key that was used before, that of the DAG that it made then."""
    _check_tasks(by, posting.definition)

    def make() -> bytes:
        return create_dag(conn, tenant_id, posting)

    body = msgspec.json.encode(posting.definition, order="deterministic")
    stored = Stored(make(), True) if key is None else make_once(conn, tenant_id, key, body, make)
    if stored.is_new:
        _record(conn, tenant_id, stored.job_id, by, "dag.create", None, _told(posting.definition, {}))
    return stored.job_id


def edit(
    conn: _Connection,
    tenant_id: str,
    dag_id: bytes,
    by: By,
    changes: Mapping[str, Any],
    check: Callable[[DagPosting], None],
) -> DagRow:
    """`check` refuses what this tenant may not have."""
    before = _locked(conn, tenant_id, dag_id, by)

    def look(posting: DagPosting) -> None:
        _check_tasks(by, posting.definition)
        check(posting)

    after = edit_dag(conn, tenant_id, dag_id, changes, look)
    if after.version != before.version:
        was, now = before.definition, after.definition
        old = {"version": before.version} | _told(was, now)
        new = {"version": after.version} | _told(now, was)
        _record(conn, tenant_id, dag_id, by, "dag.update", old, new)
    return after


def pause(conn: _Connection, tenant_id: str, dag_id: bytes, by: By) -> DagRow:
    return _change_state(conn, tenant_id, dag_id, by, "dag.pause", pause_dag)


def resume(conn: _Connection, tenant_id: str, dag_id: bytes, by: By) -> DagRow:
    return _change_state(conn, tenant_id, dag_id, by, "dag.resume", resume_dag)


def delete(conn: _Connection, tenant_id: str, dag_id: bytes, by: By) -> DagRow:
    return _change_state(conn, tenant_id, dag_id, by, "dag.delete", delete_dag)


def trigger(
    conn: _Connection,
    tenant_id: str,
    dag_id: bytes,
    by: By,
    params: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> tuple[bytes, int]:
    """The run's id, and the partition that has it. The same key is the same run."""
    dag = get_dag(conn, tenant_id, dag_id)
    _check_tasks(by, dag.definition)

    def make() -> str:
        run_id, is_new = trigger_once(conn, tenant_id, dag_id, new_request_id(), params)
        after = {"run_id": text_of(run_id)} | ({} if params is None else {"params": params})
        if is_new:
            _record(conn, tenant_id, dag_id, by, "dag.trigger", None, after)
        return text_of(run_id)

    body = msgspec.json.encode(params, order="deterministic")
    made = once_of_job(conn, tenant_id, key, ("trigger", dag_id), body, make)
    return id_of(made), dag.job.partition


def rerun(conn: _Connection, tenant_id: str, of: OfRun, by: By, keys: Sequence[str] | None) -> Resolved:
    """This and the three that follow: what followed."""
    _check_begun(conn, tenant_id, of, by)
    return dag_hands.rerun(conn, _hand(tenant_id, by), of.run_id, keys).resolved


def force_complete(
    conn: _Connection, tenant_id: str, of: OfRun, by: By, task_key: str, output: Any
) -> Resolved:
    _check_begun(conn, tenant_id, of, by)
    return dag_hands.force_complete(conn, _hand(tenant_id, by), of.run_id, task_key, output).resolved


def skip(
    conn: _Connection, tenant_id: str, of: OfRun, by: By, task_key: str, children: Literal["run", "skip"]
) -> Resolved:
    _check_begun(conn, tenant_id, of, by)
    return dag_hands.skip_task(conn, _hand(tenant_id, by), of.run_id, task_key, children).resolved


def cancel(conn: _Connection, tenant_id: str, of: OfRun, by: By) -> Resolved:
    """Begun or not."""
    run = get_run(conn, tenant_id, of.run_id, of.dag_id)
    _check_tasks(by, dag_of(conn, get_job(conn, tenant_id, of.dag_id), run.version).definition)
    if run.version is not None:
        return dag_hands.cancel_run(conn, _hand(tenant_id, by), of.run_id).resolved
    return cancel_on_record(conn, tenant_id, of.run_id, by.actor).resolved


def cancel_execution(
    conn: _Connection, tenant_id: str, execution_id: bytes, by: By, job_id: bytes | None
) -> Cancelled:
    """Of a job, of a task, or a DAG's own. One that has no row yet is that of the job which is named."""
    values = {"execution_id": Uuid(execution_id), "tenant_id": tenant_id}
    row = conn.execute(sql("job_of_execution"), values).fetchone()
    of_job = job_id if row is None else bytes(row[0])
    if of_job is not None:
        _check_job(conn, tenant_id, of_job, by)
    return cancel_on_record(conn, tenant_id, execution_id, by.actor, job_id)


def _check_job(conn: _Connection, tenant_id: str, job_id: bytes, by: By) -> None:
    """Nobody is refused what is over, if its job is gone before it."""
    with suppress(NotFoundError):
        job = get_job(conn, tenant_id, job_id)
        if job.kind == "dag":
            _check_tasks(by, dag_of(conn, job).definition)
        else:
            by.allowed(job.task)


def _change_state(
    conn: _Connection,
    tenant_id: str,
    dag_id: bytes,
    by: By,
    action: str,
    change: Callable[[_Connection, str, bytes], object],
) -> DagRow:
    before = _locked(conn, tenant_id, dag_id, by)
    change(conn, tenant_id, dag_id)
    after = get_dag(conn, tenant_id, dag_id)
    was, now = before.job.state, after.job.state
    if was != now:
        _record(conn, tenant_id, dag_id, by, action, {"state": was}, {"state": now})
    return after


def _locked(conn: _Connection, tenant_id: str, dag_id: bytes, by: By) -> DagRow:
    require_dag(conn, tenant_id, dag_id)
    dag = dag_of(conn, lock_job(conn, tenant_id, dag_id))
    _check_tasks(by, dag.definition)
    return dag


def _check_begun(conn: _Connection, tenant_id: str, of: OfRun, by: By) -> None:
    """Refused: tasks of others in the version that the run began with. Before that there is nothing to do to
    them. (The run may be that of a job with children.)"""
    run = get_run(conn, tenant_id, of.run_id, of.dag_id)
    dag = dag_of(conn, get_job(conn, tenant_id, of.dag_id), run.version)
    _check_tasks(by, dag.definition)
    if run.version is None:
        raise ConflictError(
            f"run {text_of(of.run_id)} has not begun, it is {run.state}: wait until it runs, or cancel it",
            field="run",
        )
    if dag.job.state == JobState.DELETED:
        raise ConflictError(f"DAG {text_of(of.dag_id)} is deleted: nothing of it runs any more", field="id")


def _check_tasks(by: By, definition: Mapping[str, Any]) -> None:
    for task in sorted({task["task"] for task in definition["tasks"]}):
        by.allowed(task)


def _hand(tenant_id: str, by: By) -> dag_hands.Hand:
    return dag_hands.Hand(tenant_id, *by.actor)


def _told(definition: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What the audit keeps of a definition: in what it differs from the other one. Params, and the tasks
    beyond the first hundred, are in the versions' own rows."""
    fields = {name: value for name, value in definition.items() if value != other.get(name)}
    known = {task["key"]: task for task in other.get("tasks", ())}
    tasks = [task for task in definition["tasks"] if task != known.get(task["key"])]
    told = [{name: task[name] for name in task if name != "params"} for task in tasks[:MOST_TOLD]]
    return fields | {"tasks": told, "task_count": len(definition["tasks"])}


def _record(
    conn: _Connection,
    tenant_id: str,
    dag_id: bytes,
    by: By,
    action: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
) -> None:
    details = {"before": before, "after": after}
    write_audit(conn, tenant_id, by.actor, action, "dag", text_of(dag_id), details)
