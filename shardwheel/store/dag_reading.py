"""Reading DAGs and their runs, for people: the API and `shardctl` answer with the same values."""

from __future__ import annotations

from typing import Any, NamedTuple

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
# What a run is read with: the outputs of its tasks, as far as they fit. A single one is at most 10 KB.
MOST_OUTPUT_BYTES = 1_048_576
RUN_STATES = ("running", *sorted(RUN_IS_OVER))


class DagFilter(NamedTuple):
    """Which DAGs; None: whatever, but no deleted ones. `task`: one of its tasks is of this type. `text`: a
    part of its name, in whatever case. The times are those of its creation: the first included, the end
    not."""

    state: str | None = None
    task: str | None = None
    tag: str | None = None
    text: str | None = None
    from_ms: int | None = None
    until_ms: int | None = None


class RunFilter(NamedTuple):
    """Which runs of a DAG; None: whatever. The times are the scheduled ones, the first included, the end
    not."""

    dag_id: bytes
    state: str | None = None
    from_ms: int | None = None
    until_ms: int | None = None


ALL_DAGS = DagFilter()


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
    wanted: DagFilter = ALL_DAGS,
    *,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """A page of DAGs, oldest first, without their tasks. Deleted ones only when asked for by state."""
    if wanted.state is not None and wanted.state not in set(JobState):
        refuse("state", f"{wanted.state!r:.80} is unknown", f"choose one of {', '.join(JobState)}")
    now_ms = read_now_ms(conn)
    values = {
        **wanted._asdict(),
        "tenant_id": tenant_id,
        "limit": checked_limit(limit),
        "after": Uuid(_FIRST_ID if cursor is None else id_of_cursor(cursor)),
    }
    found = conn.execute(sql("list_dags"), values, prepare=False)
    rows = [DagRow(JobRow(*row[:-5]), *row[-5:]) for row in found]
    return page_of(rows, limit, lambda row: row.as_read(now_ms), lambda row: text_of(row.job.job_id))


def list_runs(
    conn: _Connection, tenant_id: str, wanted: RunFilter, *, limit: int = 100, cursor: str | None = None
) -> Page:
    """A page of a DAG's runs, the latest scheduled time first."""
    if wanted.state is not None and wanted.state not in RUN_STATES:
        refuse("state", f"{wanted.state!r:.80} is unknown", f"choose one of {', '.join(RUN_STATES)}")
    if not get_job(conn, tenant_id, wanted.dag_id).has_children:
        require_dag(conn, tenant_id, wanted.dag_id)
    values = {
        **wanted._asdict(),
        "tenant_id": tenant_id,
        "dag_id": Uuid(wanted.dag_id),
        "limit": checked_limit(limit),
        "before": Uuid(_LAST_ID if cursor is None else id_of_cursor(cursor)),
    }
    rows = [RunRow(*row) for row in conn.execute(sql("list_dag_runs"), values, prepare=False)]
    return page_of(rows, limit, RunRow.as_read, lambda row: text_of(row.dag_run_id))


def get_run(conn: _Connection, tenant_id: str, dag_run_id: bytes, dag_id: bytes | None = None) -> RunRow:
    """A run, begun or not; of this DAG, if one is named."""
    values = {"tenant_id": tenant_id, "dag_run_id": Uuid(dag_run_id)}
    row = conn.execute(sql("read_dag_run"), values).fetchone()
    if row is None or (dag_id is not None and row[1] != dag_id):
        raise NotFoundError(f"there is no run {text_of(dag_run_id)}", field="run")
    return RunRow._make(row)


def read_run(
    conn: _Connection, tenant_id: str, dag_run_id: bytes, dag_id: bytes | None = None
) -> dict[str, Any]:
    """A run as read, with what became of each task, in the order in which they were posted."""
    run = get_run(conn, tenant_id, dag_run_id, dag_id)
    dag = dag_of(conn, get_job(conn, tenant_id, run.dag_id), run.version)
    of_version = {
        "tenant_id": tenant_id,
        "dag_run_id": Uuid(dag_run_id),
        "dag_id": Uuid(run.dag_id),
        "version": dag.version,
        "most_bytes": MOST_OUTPUT_BYTES,
    }
    rows = map(RunTaskRow._make, conn.execute(sql("read_run_tasks"), of_version, prepare=False))
    by_key = {task.key: task for task in rows}
    tasks = [by_key[task["key"]].as_read(task, run.state) for task in dag.definition["tasks"]]
    whole = {"params": run.params, "dag": dag.job.name, "policy": dag.policy, "tasks": tasks}
    return run.as_read() | whole
