"""The statements on DAGs as people state them: twins of the .sql files of the same names."""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.ids import id_of
from shardwheel.job import JobState
from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_rows import DAG_EDGES, DAG_TASKS, DAG_VERSIONS, DagEdge, DagTask, DagVersion
from shardwheel.memory.job_statements import BLANK
from shardwheel.memory.rows import insert_job, locked_job, update_job
from shardwheel.memory.transaction import Transaction
from shardwheel.store.job_row import JobRow

# As posted, by (dag_id, version): what dag_versions keeps in one row with the rest.
DAG_DEFINITIONS = "dag_definitions"


@statement("create_dag")
def create_dag(transaction: Transaction, given: Given) -> list[Any]:
    columns = msgspec.json.decode(given["dag"])
    row = BLANK._replace(**{name: value for name, value in columns.items() if name in JobRow._fields})
    whose = {"tenant_id": given["tenant_id"], "partition": given["partition"], "kind": "dag"}
    made = insert_job(transaction, row._replace(job_id=given["dag_id"], **whose))
    return [(made.effective_from_ms,)]


@statement("create_tasks")
def create_tasks(transaction: Transaction, given: Given) -> list[Any]:
    whose = {name: given[name] for name in ("tenant_id", "partition", "dag_id")} | {"kind": "task"}
    made = []
    for columns in msgspec.json.decode(given["tasks"]):
        del columns["task_key"]
        columns["job_id"] = id_of(columns["job_id"])
        insert_job(transaction, BLANK._replace(schedule='{"never":true}', **whose, **columns))
        made.append(Written())
    return made


@statement("add_dag_version")
def add_dag_version(transaction: Transaction, given: Given) -> list[Any]:
    key = (given["dag_id"], given["version"])
    said = (given[name] for name in ("policy", "sla_ms", "max_retries", "backoff"))
    transaction.put(DAG_VERSIONS, key, DagVersion(*key, *said))
    transaction.put(DAG_DEFINITIONS, key, given["definition"])
    names = ("task_ids", "task_keys", "fan_outs", "in_degrees")
    for columns in zip(*(given[name] for name in names), strict=True):
        task = DagTask(*key, *columns)
        transaction.put(DAG_TASKS, (*key, task.task_id), task)
    for child_id, parent_id in zip(given["child_ids"], given["parent_ids"], strict=True):
        edge = DagEdge(*key, child_id, parent_id)
        transaction.put(DAG_EDGES, edge, edge)
    return [Written() for _ in given["child_ids"]]


@statement("read_dag_version")
def read_dag_version(transaction: Transaction, given: Given) -> list[Any]:
    asked_for = given["version"]
    found: list[DagVersion] = sorted(
        row
        for _, row in transaction.rows(DAG_VERSIONS)
        if row.dag_id == given["dag_id"] and asked_for in (None, row.version)
    )[-1:]
    return [
        (row.version, row.policy, row.sla_ms, msgspec.json.decode(_definition(transaction, row)))
        for row in found
    ]


def _definition(transaction: Transaction, row: DagVersion) -> str:
    text: str = transaction.get(DAG_DEFINITIONS, (row.dag_id, row.version))
    return text


@statement("dag_task_ids")
def dag_task_ids(transaction: Transaction, given: Given) -> list[Any]:
    wanted = (given["dag_id"], given["version"])
    tasks = [task for _, task in transaction.rows(DAG_TASKS) if (task.dag_id, task.version) == wanted]
    return [(task.task_key, task.task_id) for task in tasks]


@statement("delete_tasks")
def delete_tasks(transaction: Transaction, given: Given) -> list[Any]:
    tasks = [task for _, task in transaction.rows(DAG_TASKS) if task.dag_id == given["dag_id"]]
    deleted = []
    for task_id in sorted({task.task_id for task in tasks}):
        row = locked_job(transaction, task_id)
        if row is not None and row.state != JobState.DELETED:
            update_job(transaction, row._replace(state="deleted"))
            deleted.append(Written())
    return deleted
