"""The statements of fan-outs: twins of the .sql files of the same names."""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_rows import DAG_FANS, DAG_RUNS, DAG_TASKS, DagFan, DagRun, DagTask
from shardwheel.memory.dag_statements import edges_of, executions_of, params_of
from shardwheel.memory.rows import JOBS
from shardwheel.memory.transaction import Transaction


@statement("dag_open_fan")
def dag_open_fan(transaction: Transaction, given: Given) -> list[Any]:
    run_id, task_id, items = given["run_id"], given["task_id"], given["items"]
    transaction.put(DAG_FANS, (run_id, task_id), DagFan(run_id, task_id, items, items))
    return [Written()]


@statement("dag_fan_down")
def dag_fan_down(transaction: Transaction, given: Given) -> list[Any]:
    touched = {}
    names = ("run_ids", "task_ids", "failed", "skipped")
    for run_id, task_id, failed, skipped in zip(*(given[name] for name in names), strict=True):
        fan: DagFan | None = transaction.get(DAG_FANS, (run_id, task_id))
        if fan is None:
            continue
        fan = fan._replace(
            open_items=fan.open_items - 1,
            failed_items=fan.failed_items + failed,
            skipped_items=fan.skipped_items + skipped,
        )
        transaction.put(DAG_FANS, (run_id, task_id), fan)
        touched[run_id, task_id] = (run_id, task_id, *fan[3:])
    return list(touched.values())


@statement("dag_fan_source")
def dag_fan_source(transaction: Transaction, given: Given) -> list[Any]:
    run: DagRun = transaction.get(DAG_RUNS, given["run_id"])
    own = transaction.get(JOBS, given["task_id"]).row.params
    params = (params_of(transaction, run, given["task_id"]) or msgspec.json.encode(own).decode()).encode()
    edges = edges_of(transaction, given["dag_id"], given["version"])
    (parent_id,) = [edge.parent_id for edge in edges if edge.child_id == given["task_id"]]
    parent: DagTask = transaction.get(DAG_TASKS, (given["dag_id"], given["version"], parent_id))
    rows = [row for row in executions_of(transaction, given["run_id"]) if row.job_id == parent_id]
    rows.sort(key=lambda row: -1 if row.item_no is None else row.item_no)
    return [(params, parent.fan_out, row.item_no, row.output) for row in rows]
