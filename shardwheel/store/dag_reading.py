"""Reading DAGs and their runs, for people: the API and `shardctl` answer with the same values."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.errors import NotFoundError
from shardwheel.ids import text_of
from shardwheel.job import JobState
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_row import RUN_IS_OVER, DagRow, RunRow, RunTaskRow, task_as_read
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import get_job, read_now_ms
from shardwheel.store.page import Page, checked_limit, id_of_cursor, page_of
from shardwheel.store.sql import sql
from shardwheel.times import refuse

_Connection = Connection[Any]
_FIRST_ID, _LAST_ID = bytes(16), b"\xff" * 16
RUN_STATES = ("running", *sorted(RUN_IS_OVER))


def get_dag(conn: _Connection, tenant_id: str, dag_id: bytes) -> DagRow:
    """A DAG with its latest version."""
    return dag_of(conn, require_dag(conn, tenant_id, dag_id))


def require_dag(conn: _Connection, tenant_id: str, dag_id: bytes) -> JobRow:
    """The job that a DAG is; refused when there is none, or it is something else."""
    unknown = NotFoundError(f"there is no DAG {text_of(dag_id)}", field="id")
    try:
        job = get_job(conn, tenant_id, dag_id)
    except NotFoundError:
        raise unknown from None
    if job.kind != "dag":
        raise unknown
    return job


def dag_of(conn: _Connection, job: JobRow, version: int | None = None) -> DagRow:
    """The DAG that this job is, with that version or its latest."""
    values = {"tenant_id": job.tenant_id, "dag_id": Uuid(job.job_id), "version": version}
    ((number, policy, sla_ms, definition),) = conn.execute(sql("read_dag_version"), values)
    return DagRow(job, number, policy, sla_ms, definition, len(definition["tasks"]))


def task_ids_of(conn: _Connection, dag: DagRow) -> dict[str, bytes]:
    """The jobs of its tasks, by key."""
    values = {"tenant_id": dag.job.tenant_id, "dag_id": Uuid(dag.job.job_id), "version": dag.version}
    return {key: bytes(task_id) for key, task_id in conn.execute(sql("dag_task_ids"), values)}


def read_dag(conn: _Connection, tenant_id: str, dag_id: bytes) -> dict[str, Any]:
    """A DAG as read, with its tasks in the order in which they were posted."""
    dag = get_dag(conn, tenant_id, dag_id)
    ids = task_ids_of(conn, dag)
    tasks = [task_as_read(task, ids[task["key"]]) for task in dag.definition["tasks"]]
    return dag.as_read(read_now_ms(conn)) | {"tasks": tasks}


def list_dags(
    conn: _Connection,
    tenant_id: str,
    *,
    state: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """A page of DAGs, oldest first, without their tasks. Deleted ones only when asked for by state."""
    if state is not None and state not in set(JobState):
        refuse("state", f"{state!r:.80} is none", f"give one of {', '.join(JobState)}")
    now_ms = read_now_ms(conn)
    values = {
        "tenant_id": tenant_id,
        "state": state,
        "limit": checked_limit(limit),
        "after": Uuid(_FIRST_ID if cursor is None else id_of_cursor(cursor)),
    }
    rows = [DagRow(JobRow(*row[:-5]), *row[-5:]) for row in conn.execute(sql("list_dags"), values)]
    return page_of(rows, limit, lambda row: row.as_read(now_ms), lambda row: text_of(row.job.job_id))


def list_runs(
    conn: _Connection,
    tenant_id: str,
    dag_id: bytes,
    *,
    state: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """A page of a DAG's runs, the latest scheduled time first."""
    if state is not None and state not in RUN_STATES:
        refuse("state", f"{state!r:.80} is none", f"give one of {', '.join(RUN_STATES)}")
    require_dag(conn, tenant_id, dag_id)
    values = {
        "tenant_id": tenant_id,
        "dag_id": Uuid(dag_id),
        "state": state,
        "limit": checked_limit(limit),
        "before": Uuid(_LAST_ID if cursor is None else id_of_cursor(cursor)),
    }
    rows = [RunRow._make(row) for row in conn.execute(sql("list_dag_runs"), values)]
    return page_of(rows, limit, RunRow.as_read, lambda row: text_of(row.dag_run_id))


def read_run(conn: _Connection, tenant_id: str, dag_run_id: bytes) -> dict[str, Any]:
    """A run as read, with what became of each task, in the order in which they were posted."""
    values = {"tenant_id": tenant_id, "dag_run_id": Uuid(dag_run_id)}
    row = conn.execute(sql("read_dag_run"), values).fetchone()
    if row is None:
        raise NotFoundError(f"there is no run {text_of(dag_run_id)}", field="id")
    run = RunRow._make(row)
    dag = dag_of(conn, get_job(conn, tenant_id, run.dag_id), run.version)
    of_version = values | {"dag_id": Uuid(run.dag_id), "version": dag.version}
    rows = map(RunTaskRow._make, conn.execute(sql("read_run_tasks"), of_version, prepare=False))
    by_key = {task.key: task for task in rows}
    tasks = [by_key[task["key"]].as_read(task, run.state) for task in dag.definition["tasks"]]
    return run.as_read() | {"dag": dag.job.name, "policy": dag.policy, "tasks": tasks}
