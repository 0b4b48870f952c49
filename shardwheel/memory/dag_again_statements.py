"""A run goes on from what failed, maybe after its end: twins of the .sql files of the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_rows import DAG_FANS, DAG_PUT_OFF, DagFan
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
    run_id, rows = given["run_id"], executions_of(transaction, given["run_id"])
    fans = {task.task_id for task in tasks_of(transaction, given["dag_id"], given["version"]) if task.fan_out}
    if not given["by_hand"] and not any(row.state == "dead" for row in rows):
        return []
    own = {row.job_id: row for row in rows if row.item_no is None}
    over = [row for row in rows if _is_meant(transaction, row, own[row.job_id], given)]
    with_items = {row.job_id for row in over if row.item_no is not None}
    again = {}
    for row in over:
        is_fan = row.item_no is None and row.job_id in fans
        has_items = is_fan and transaction.get(DAG_FANS, (run_id, row.job_id)) is not None
        if has_items and row.job_id not in with_items:
            continue  # None of its items goes on.
        changed = _again(transaction, row, given, is_fan)
        put_execution(transaction, changed)
        if changed.state == "queued":
            transaction.put(DEAD_LETTERS, (row.execution_id, row.attempt), None)
        again[row.execution_id] = changed.state
    for task_id in with_items:
        _open_again(transaction, run_id, task_id, again)
    return list(again.items())


def _is_meant(transaction: Transaction, row: Execution, own: Execution, given: Given) -> bool:
    """`own`: of an item, its fan-out."""
    is_skipped = row.state == "skipped" and row.reason in _SKIPPED_FOR_OTHERS
    if not is_skipped and row.state != "dead" and not (row.state == "cancelled" and given["by_hand"]):
        return False
    if transaction.get(DAG_PUT_OFF, (given["run_id"], row.job_id, number_of(row))) is not None:
        return False
    is_stopped = (own.state, own.reason) == ("skipped", "run_failed")
    if row.item_no is not None and not is_stopped and own.state not in ("dead", "cancelled", "running"):
        return False
    named = given["execution_ids"]
    if given["all"] or row.job_id in given["task_ids"] or row.execution_id in named:
        return True
    goes_on = row.item_no is None or own.state in ("running", "skipped") or own.execution_id in named
    return is_skipped and goes_on


def _open_again(transaction: Transaction, run_id: bytes, task_id: bytes, again: Mapping[bytes, str]) -> None:
    """What is left of a fan-out's items is counted anew."""
    fan: DagFan | None = transaction.get(DAG_FANS, (run_id, task_id))
    if fan is None:
        return
    items = [
        row for row in executions_of(transaction, run_id) if row.job_id == task_id and row.item_no is not None
    ]
    left = [
        row.state
        for row in items
        if row.execution_id not in again
        and transaction.get(DAG_PUT_OFF, (run_id, task_id, number_of(row))) is None
    ]
    opened = fan._replace(
        open_items=max(fan.open_items, 0) + sum(row.execution_id in again for row in items),
        failed_items=sum(state in ("dead", "cancelled") for state in left),
        skipped_items=left.count("skipped"),
    )
    transaction.put(DAG_FANS, (run_id, task_id), opened)


def _again(transaction: Transaction, row: Execution, given: Given, is_fan: bool) -> Execution:
    row = row._replace(failures=0, crashes=0, asked_to_stop=False)
    if is_fan and transaction.get(DAG_FANS, (given["run_id"], row.job_id)) is not None:
        return row._replace(state="running", reason=None)
    if is_fan or (row.state == "skipped" and row.item_no is None):
        return row._replace(state="skipped", reason="pending_again")
    due_ms = whole_now_ms(transaction) + given["wait_ms"]
    return row._replace(state="queued", reason=None, attempt=row.attempt + 1, due_ms=due_ms)
