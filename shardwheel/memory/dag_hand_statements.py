"""What people and the sweep do to DAG runs: twins of the .sql files of the same names."""

from __future__ import annotations

from typing import Any

from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_rows import DAG_FANS, DAG_PUT_OFF, DAG_RUNS, DAG_TASKS, DagFan, DagRun
from shardwheel.memory.dag_statements import edges_of, executions_of
from shardwheel.memory.hold_rows import OVERLAP_SLOTS
from shardwheel.memory.rows import (
    EXECUTIONS,
    JOBS,
    UNFINISHED,
    Execution,
    executions,
    put_execution,
    whole_now_ms,
)
from shardwheel.memory.slots import Wanted, take_job_slots
from shardwheel.memory.transaction import Transaction

_DOOMED = ("deleted", "expired")


@statement("dag_mend")
def dag_mend(transaction: Transaction, given: Given) -> list[Any]:
    run: DagRun = transaction.get(DAG_RUNS, given["run_id"])
    execution_id = given["execution_id"]
    row: Execution | None = transaction.get(EXECUTIONS, execution_id)
    if row is None:
        head = (
            execution_id,
            run.tenant_id,
            run.partition,
            given["task_id"],
            4,
            "dag",
            "new",
            run.scheduled_ms,
        )
        row = Execution(*head, whole_now_ms(transaction), dag_run_id=run.dag_run_id)
    mended = row._replace(
        state=given["state"],
        reason=given["reason"],
        output=None if given["output"] is None else given["output"].encode(),
        claim_token=None,
        lease_until_ms=None,
        timeout_at_ms=None,
        reported=None,
    )
    put_execution(transaction, mended)
    untold = (run.dag_run_id, given["task_id"], -1)
    if transaction.get(DAG_PUT_OFF, untold) is not None:
        transaction.put(DAG_PUT_OFF, untold, None)
    return [Written()]


@statement("write_audit")
def write_audit(transaction: Transaction, given: Given) -> list[Any]:
    """Nobody reads the audit in memory."""
    return [Written()]


@statement("dag_take_slots")
def dag_take_slots(transaction: Transaction, given: Given) -> list[Any]:
    runs: list[DagRun] = [transaction.get(DAG_RUNS, run_id) for run_id in given["run_ids"]]
    wanted = [run for run in runs if transaction.get(JOBS, run.dag_id).row.overlap != "allow"]
    for run in wanted:
        row: Execution = transaction.get(EXECUTIONS, run.dag_run_id)
        put_execution(transaction, row._replace(slotted=True))
    take_job_slots(transaction, [Wanted(run.dag_run_id, run.dag_id, run.partition) for run in wanted])
    return [(run.dag_run_id, run.dag_id) for run in wanted]


@statement("dag_slots_taken")
def dag_slots_taken(transaction: Transaction, given: Given) -> list[Any]:
    found = [transaction.get(OVERLAP_SLOTS, dag_id) for dag_id in given["dag_ids"]]
    return [(slot.job_id, slot.execution_id) for slot in found if slot is not None]


@statement("dag_run_of")
def dag_run_of(transaction: Transaction, given: Given) -> list[Any]:
    row: Execution | None = transaction.get(EXECUTIONS, given["execution_id"])
    if row is None or row.tenant_id != given["tenant_id"]:
        return []
    run: DagRun | None = transaction.get(DAG_RUNS, row.execution_id)
    own = None if run is None else run.dag_run_id
    return [(row.dag_run_id or own, row.job_id, row.item_no, run is not None and row.dag_run_id is None)]


@statement("dag_inputs")
def dag_inputs(transaction: Transaction, given: Given) -> list[Any]:
    row: Execution = transaction.get(EXECUTIONS, given["execution_id"])
    if row.dag_run_id is None:
        return []
    run: DagRun = transaction.get(DAG_RUNS, row.dag_run_id)
    found = []
    for edge in edges_of(transaction, run.dag_id, run.version):
        if edge.child_id == row.job_id:
            parent = transaction.get(DAG_TASKS, (run.dag_id, run.version, edge.parent_id))
            found += [
                (parent.task_key, parent.fan_out, one.item_no, one.state, one.output)
                for one in executions_of(transaction, run.dag_run_id)
                if one.job_id == edge.parent_id
            ]
    return sorted(found, key=lambda one: (one[0], -1 if one[2] is None else one[2]))


@statement("dag_swept_runs")
def dag_swept_runs(transaction: Transaction, given: Given) -> list[Any]:
    now_ms = transaction.server.now_ms()
    grace_ms = given["grace"].total_seconds() * 1000
    found = set()
    for row in executions(transaction, given["partitions"], "running", "held"):
        is_doomed = row.state == "held" and row.reason in _DOOMED
        is_silent = row.lease_until_ms is not None and row.lease_until_ms < now_ms
        is_late = row.timeout_at_ms is not None and row.timeout_at_ms + grace_ms < now_ms
        if row.dag_run_id is not None and (is_doomed or is_silent or is_late):
            found.add(row.dag_run_id)
    return [(run_id,) for run_id in sorted(found)][: given["most"]]


@statement("dag_skip_doomed")
def dag_skip_doomed(transaction: Transaction, given: Given) -> list[Any]:
    skipped = []
    for run_id in given["run_ids"]:
        for row in executions_of(transaction, run_id):
            if row.state == "held" and row.reason in _DOOMED:
                put_execution(transaction, row._replace(state="skipped"))
                skipped.append((run_id, row.job_id, row.item_no, "skipped", row.reason))
    return skipped


@statement("dag_stale_runs")
def dag_stale_runs(transaction: Transaction, given: Given) -> list[Any]:
    runs = sorted(
        run.dag_run_id
        for _, run in transaction.rows(DAG_RUNS)
        if run.partition in given["partitions"] and run.state == "running" and run.dag_run_id > given["after"]
    )
    return [(run_id, not _is_under_way(transaction, run_id)) for run_id in runs[: given["page"]]]


def _is_under_way(transaction: Transaction, run_id: bytes) -> bool:
    return any(put_off.dag_run_id == run_id for _, put_off in transaction.rows(DAG_PUT_OFF)) or any(
        row.state in UNFINISHED and (row.state != "running" or row.lease_until_ms is not None)
        for row in executions_of(transaction, run_id)
    )


@statement("dag_close_fans")
def dag_close_fans(transaction: Transaction, given: Given) -> list[Any]:
    closed = []
    for key, fan in list(transaction.rows(DAG_FANS)):
        if fan.dag_run_id == given["run_id"] and fan.open_items > 0:
            items = [row for row in executions_of(transaction, fan.dag_run_id) if _is_item(row, fan)]
            failed = sum(row.state in ("dead", "cancelled") for row in items)
            skipped = sum(row.state == "skipped" for row in items)
            ended = fan._replace(open_items=0, failed_items=failed, skipped_items=skipped)
            transaction.put(DAG_FANS, key, ended)
            closed.append((fan.dag_run_id, fan.task_id, *ended[3:]))
    return closed


def _is_item(row: Execution, fan: DagFan) -> bool:
    return row.job_id == fan.task_id and row.item_no is not None
