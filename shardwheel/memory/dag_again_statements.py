"""A run goes on from what failed, maybe after its end: twins of the .sql files of the same names."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_rows import DAG_FANS, DAG_PUT_OFF
from shardwheel.memory.dag_statements import executions_of, number_of, tasks_of
from shardwheel.memory.rows import DEAD_LETTERS, EXECUTIONS, Execution, put_execution, whole_now_ms
from shardwheel.memory.transaction import Transaction

_SKIPPED_FOR_OTHERS = ("upstream_failed", "upstream_skipped", "run_failed")


@statement("dag_reopen")
def dag_reopen(transaction: Transaction, given: Given) -> list[Any]:
    row: Execution = transaction.get(EXECUTIONS, given["run_id"])
    if row.dag_run_id is not None or row.state not in ("succeeded", "dead", "cancelled"):
        return []
    put_execution(transaction, row._replace(state="running", reason=None))
    return [Written()]


@statement("dag_requeue")
def dag_requeue(transaction: Transaction, given: Given) -> list[Any]:
    run_id, again = given["run_id"], []
    fans = {task.task_id for task in tasks_of(transaction, given["dag_id"], given["version"]) if task.fan_out}
    open_fans = {
        row.job_id
        for row in executions_of(transaction, run_id)
        if row.item_no is None and row.state in ("dead", "cancelled", "running")
    }
    opened: Counter[bytes] = Counter()
    for row in executions_of(transaction, run_id):
        if row.item_no is not None and row.job_id not in open_fans:
            continue
        is_skipped = row.state == "skipped" and row.reason in _SKIPPED_FOR_OTHERS
        if not is_skipped and row.state not in ("dead", "cancelled"):
            continue
        if transaction.get(DAG_PUT_OFF, (run_id, row.job_id, number_of(row))) is not None:
            continue
        is_meant = row.job_id in given["task_ids"] or row.execution_id in given["execution_ids"]
        if not (given["all"] or (is_skipped and row.item_no is None) or is_meant):
            continue
        changed = _again(transaction, row, given, row.item_no is None and row.job_id in fans)
        put_execution(transaction, changed)
        opened[row.job_id] += row.item_no is not None
        if changed.state == "queued":
            transaction.put(DEAD_LETTERS, (row.execution_id, row.attempt), None)
        again.append((row.execution_id, changed.state))
    for task_id, number in opened.items():
        fan = transaction.get(DAG_FANS, (run_id, task_id))
        if fan is not None and number:
            open_items, failed_items = max(fan.open_items, 0) + number, max(fan.failed_items - number, 0)
            transaction.put(
                DAG_FANS, (run_id, task_id), fan._replace(open_items=open_items, failed_items=failed_items)
            )
    return again


def _again(transaction: Transaction, row: Execution, given: Given, is_fan: bool) -> Execution:
    row = row._replace(failures=0, crashes=0, asked_to_stop=False)
    if is_fan and transaction.get(DAG_FANS, (given["run_id"], row.job_id)) is not None:
        return row._replace(state="running", reason=None)
    if is_fan or (row.state == "skipped" and row.item_no is None):
        return row._replace(state="skipped", reason="pending_again")
    due_ms = whole_now_ms(transaction) + given["wait_ms"]
    return row._replace(state="queued", reason=None, attempt=row.attempt + 1, due_ms=due_ms)
