"""The statements on jobs, and what people ask of them: twins of the .sql files of the same names."""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.execution import ExecutionState
from shardwheel.memory.connection import Given, Written, plain_statement, statement
from shardwheel.memory.dag_rows import DAG_EDGES, DAG_VERSIONS
from shardwheel.memory.rows import (
    EXECUTIONS,
    JOBS,
    SKIP_RANGES,
    WORK_ROWS,
    Execution,
    SkipRange,
    Work,
    insert_job,
    locked_job,
    put_execution,
    update_job,
    whole_now_ms,
)
from shardwheel.memory.transaction import Transaction
from shardwheel.store.job_row import JobRow

# A job's columns before anything is said of it.
BLANK = JobRow(
    job_id=b"",
    tenant_id="",
    partition=0,
    kind="job",
    state="active",
    task="",
    name="",
    params={},
    tags=[],
    schedule="",
    anchor_ms=None,
    start_ms=None,
    end_ms=None,
    last_ms=None,
    max_runs=None,
    jitter_ms=0,
    pool="short",
    priority=2,
    timeout_ms=60_000,
    max_retries=3,
    backoff={},
    misfire="fire_last",
    misfire_grace_ms=60_000,
    catchup_window_ms=3_600_000,
    overlap="allow",
    not_after_ms=None,
    version=0,
    schedule_no=0,
    schedule_xid=0,
    effective_from_ms=0,
    created_ms=0,
)
_OPEN = (ExecutionState.QUEUED, ExecutionState.RETRY_WAIT, ExecutionState.HELD)


@plain_statement("SELECT shardwheel.now_ms()")
def now_ms(transaction: Transaction, given: Given) -> list[Any]:
    return [(whole_now_ms(transaction),)]


@plain_statement("SELECT shardwheel.make_months(%s)")
def make_months(transaction: Transaction, given: Given) -> list[Any]:
    return [([],)]


@statement("create_jobs")
def create_jobs(transaction: Transaction, given: Given) -> list[Any]:
    forms = msgspec.json.decode(given["forms"])
    own = (given[name] for name in ("job_ids", "partitions", "numbers", "anchors", "names", "params"))
    made = []
    for job_id, partition, number, anchor_ms, name, params in zip(*own, strict=True):
        columns = forms[number - 1] | {"name": name, "params": msgspec.json.decode(params)}
        columns["anchor_ms"] = anchor_ms if columns.pop("is_anchored") else None
        if columns.pop("is_once"):
            columns["last_ms"] = anchor_ms
        whose = BLANK._replace(tenant_id=given["tenant_id"], job_id=job_id, partition=partition)
        made.append(insert_job(transaction, whose._replace(**columns)))
    return [
        (row.job_id, row.version, row.schedule_no, row.schedule_xid, row.effective_from_ms, row.created_ms)
        for row in made
    ]


@statement("read_job")
def read_job(transaction: Transaction, given: Given) -> list[Any]:
    found = transaction.get(JOBS, given["job_id"])
    if found is None or found.row.tenant_id != given["tenant_id"]:
        return []
    return [found.row._replace(parents=parents_of(transaction, found.row))]


def parents_of(transaction: Transaction, job: JobRow) -> list[bytes]:
    """By the latest version of its DAG, or of the job at its root."""
    if job.kind != "task":
        return []
    versions = [row.version for _, row in transaction.rows(DAG_VERSIONS) if row.dag_id == job.dag_id]
    place = (job.dag_id, max(versions, default=0), job.job_id)
    return sorted(edge.parent_id for _, edge in transaction.rows(DAG_EDGES) if edge[:3] == place)


@statement("families_of")
def families_of(transaction: Transaction, given: Given) -> list[Any]:
    found = [transaction.get(JOBS, job_id) for job_id in given["job_ids"]]
    jobs = [one.row for one in found if one is not None and one.row.tenant_id == given["tenant_id"]]
    return [(job.job_id, job.kind, job.dag_id or job.job_id) for job in jobs]


@statement("set_root")
def set_root(transaction: Transaction, given: Given) -> list[Any]:
    job: JobRow = transaction.get(JOBS, given["job_id"]).row
    update_job(transaction, job._replace(dag_id=job.job_id if given["has_children"] else None))
    return [Written()]


@statement("has_begun")
def has_begun(transaction: Transaction, given: Given) -> list[Any]:
    row: Execution | None = transaction.get(EXECUTIONS, given["execution_id"])
    if row is None or (row.started_ms is None and row.state in ("queued", "held")):
        return []
    return [(1,)]


@statement("lock_job")
def lock_job(transaction: Transaction, given: Given) -> list[Any]:
    locked_job(transaction, given["job_id"])
    return read_job(transaction, given)


@statement("share_job")
def share_job(transaction: Transaction, given: Given) -> list[Any]:
    return lock_job(transaction, given)


@statement("edit_job")
def edit_job(transaction: Transaction, given: Given) -> list[Any]:
    old: JobRow = transaction.get(JOBS, given["job_id"]).row
    new = update_job(transaction, old._replace(**msgspec.json.decode(given["job"])))
    return [(new.effective_from_ms, new.schedule_no)]


@statement("change_state")
def change_state(transaction: Transaction, given: Given) -> list[Any]:
    old: JobRow = transaction.get(JOBS, given["job_id"]).row
    return [(update_job(transaction, old._replace(state=str(given["state"]))).effective_from_ms,)]


@statement("limit_runs")
def limit_runs(transaction: Transaction, given: Given) -> list[Any]:
    old: JobRow = transaction.get(JOBS, given["job_id"]).row
    update_job(transaction, old._replace(last_ms=given["last_ms"]))
    return [Written()]


@statement("execution_exists")
def execution_exists(transaction: Transaction, given: Given) -> list[Any]:
    return [] if transaction.get(EXECUTIONS, given["execution_id"]) is None else [(1,)]


@statement("settle_old")
def settle_old(transaction: Transaction, given: Given) -> list[Any]:
    times = zip(given["execution_ids"], given["scheduled"], given["due"], strict=True)
    written = []
    for execution_id, scheduled_ms, due_ms in sorted(times):
        row = Execution(
            execution_id,
            given["tenant_id"],
            given["partition"],
            given["job_id"],
            0,
            "settled",
            given["state"],
            scheduled_ms,
            due_ms,
            reason=given["reason"],
            schedule_no=given["schedule_no"],
        )
        written += insert_execution(transaction, row)
    return written


def insert_execution(transaction: Transaction, row: Execution) -> list[Any]:
    """ON CONFLICT DO NOTHING: waits for whoever is inserting the same, and then leaves theirs alone."""
    transaction.lock(EXECUTIONS, row.execution_id)
    if transaction.get(EXECUTIONS, row.execution_id) is not None:
        return []
    put_execution(transaction, row)
    return [Written()]


@statement("add_skip_range")
def add_skip_range(transaction: Transaction, given: Given) -> list[Any]:
    names = ("job_id", "first_ms", "last_ms", "count", "reason", "schedule_no")
    return insert_skip_range(transaction, SkipRange(*(given[name] for name in names)))


def insert_skip_range(transaction: Transaction, row: SkipRange) -> list[Any]:
    key = (row.job_id, row.first_ms, row.last_ms)
    transaction.lock(SKIP_RANGES, key)
    if transaction.get(SKIP_RANGES, key) is not None:
        return []
    transaction.put(SKIP_RANGES, key, row)
    return [Written()]


@statement("add_work_row")
def add_work_row(transaction: Transaction, given: Given) -> list[Any]:
    columns = {"times" if name == "count" else name: value for name, value in given.items()}
    return insert_work(transaction, Work(work_id=0, **columns))


def insert_work(transaction: Transaction, row: Work) -> list[Any]:
    transaction.lock(WORK_ROWS, row.once)
    if transaction.get(WORK_ROWS, row.once) is not None:
        return []
    last_id = max((work.work_id for _, work in transaction.rows(WORK_ROWS)), default=0)
    transaction.put(WORK_ROWS, row.once, row._replace(work_id=last_id + 1))
    return [Written()]


@statement("trigger_job")
def trigger_job(transaction: Transaction, given: Given) -> list[Any]:
    for _, row in transaction.rows(EXECUTIONS):
        if (row.job_id, row.request_id, row.origin) == (given["job_id"], given["request_id"], "trigger"):
            return [(row.execution_id, False)]
    row = Execution(
        given["execution_id"],
        given["tenant_id"],
        given["partition"],
        given["job_id"],
        1,
        "trigger",
        "queued",
        given["now_ms"],
        given["now_ms"],
        request_id=given["request_id"],
        params=given["params"],
    )
    put_execution(transaction, row)
    return [(row.execution_id, True)]


@statement("lock_execution")
def lock_execution(transaction: Transaction, given: Given) -> list[Any]:
    if transaction.get(EXECUTIONS, given["execution_id"]) is None:
        return []
    transaction.lock(EXECUTIONS, given["execution_id"])
    row: Execution = transaction.get(EXECUTIONS, given["execution_id"])
    return [(row.state, row.asked_to_stop)] if row.tenant_id == given["tenant_id"] else []


@statement("cancel_execution")
def cancel_execution(transaction: Transaction, given: Given) -> list[Any]:
    row: Execution = transaction.get(EXECUTIONS, given["execution_id"])
    if row.state not in _OPEN:
        return []
    put_execution(transaction, row._replace(state="cancelled", reason="cancelled"))
    return [Written()]


@statement("ask_to_stop")
def ask_to_stop(transaction: Transaction, given: Given) -> list[Any]:
    row: Execution = transaction.get(EXECUTIONS, given["execution_id"])
    put_execution(transaction, row._replace(asked_to_stop=True))
    return [Written()]


@statement("cancel_ahead")
def cancel_ahead(transaction: Transaction, given: Given) -> list[Any]:
    row = Execution(
        given["execution_id"],
        given["tenant_id"],
        given["partition"],
        given["job_id"],
        0,
        "schedule",
        "cancelled",
        given["scheduled_ms"],
        given["scheduled_ms"],
        reason="cancelled",
    )
    return insert_execution(transaction, row)
