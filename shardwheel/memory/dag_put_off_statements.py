"""Ends of DAG tasks that were put off: twins of the .sql files that write, find and take them."""

from __future__ import annotations

from typing import Any

from shardwheel.memory.connection import Given, statement
from shardwheel.memory.dag_rows import DAG_PUT_OFF, DagPutOff
from shardwheel.memory.dag_statements import number_of
from shardwheel.memory.rows import Execution
from shardwheel.memory.transaction import Transaction


def put_off(transaction: Transaction, row: Execution) -> None:
    """Its run is to be told later; what settle.sql does with `put_off`."""
    assert row.dag_run_id is not None
    now_ms = transaction.server.now_ms()
    name = (row.dag_run_id, row.job_id, number_of(row))
    transaction.put(DAG_PUT_OFF, name, DagPutOff(*name, row.partition, row.state, row.reason, now_ms))


@statement("dag_runs_put_off")
def dag_runs_put_off(transaction: Transaction, given: Given) -> list[Any]:
    owed = sorted(
        row.dag_run_id for _, row in transaction.rows(DAG_PUT_OFF) if row.dag_run_id > given["after"]
    )
    return [(run_id,) for run_id in sorted(set(owed[: given["most"]]))]


@statement("dag_long_put_off")
def dag_long_put_off(transaction: Transaction, given: Given) -> list[Any]:
    before_ms = transaction.server.now_ms() - given["age"].total_seconds() * 1000
    owed = [
        row.dag_run_id
        for _, row in transaction.rows(DAG_PUT_OFF)
        if row.partition in given["partitions"] and row.put_off_ms < before_ms
    ]
    return [(run_id,) for run_id in sorted(set(owed[: given["most"]]))]


@statement("dag_take_put_off")
def dag_take_put_off(transaction: Transaction, given: Given) -> list[Any]:
    owed = sorted(row for _, row in transaction.rows(DAG_PUT_OFF) if row.dag_run_id in given["run_ids"])
    taken = owed[: given["most"]]
    for row in taken:
        transaction.put(DAG_PUT_OFF, row.key, None)
    return [
        (row.dag_run_id, row.task_id, None if row.item_no < 0 else row.item_no, row.state, row.reason)
        for row in taken
    ]
