"""The statements that let held executions go on, or end them: twins of the .sql files of the same names."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from shardwheel.ids import id_of, partition_of_id, text_of
from shardwheel.limits import TaskName
from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_rows import DAG_RUNS
from shardwheel.memory.hold_rows import (
    DELETED_HELD,
    OVERLAP_SLOTS,
    TASK_BUDGETS,
    TASK_SLOTS,
    WORKERS,
    Budget,
    DeletedHeld,
    WorkerRow,
)
from shardwheel.memory.rows import (
    EXECUTIONS,
    JOBS,
    UNFINISHED,
    Execution,
    hand_on_job_slot,
    is_free,
    job_of,
    put_execution,
)
from shardwheel.memory.slots import breaker_of, type_of
from shardwheel.memory.transaction import Transaction


class Hold(NamedTuple):
    tenant_id: str
    held_for: str


def _held(transaction: Transaction, reason: str) -> list[Execution]:
    """What is held for this reason, the oldest first."""
    return sorted(
        row for _, row in transaction.rows(EXECUTIONS) if (row.state, row.reason) == ("held", reason)
    )


def _holds(transaction: Transaction, reason: str) -> dict[Hold, list[Execution]]:
    """In order: who holds something for this reason, and what."""
    found: dict[Hold, list[Execution]] = {}
    for row in _held(transaction, reason):
        found.setdefault(Hold(row.tenant_id, row.held_for or ""), []).append(row)
    return dict(sorted(found.items()))


def _release(transaction: Transaction, rows: list[Execution], most: int) -> list[Any]:
    free = [row for row in rows if is_free(transaction, EXECUTIONS, row.execution_id)][:most]
    for row in free:
        put_execution(transaction, row._replace(state="queued", reason=None))
    return [Written()] * len(free)


# --- what task types hold -----------------------------------------------------------------------------


@statement("sweep_held")
def sweep_held(transaction: Transaction, given: Given) -> list[Any]:
    full: list[Any] = []
    for reason, *after in zip(given["reasons"], given["after_tenants"], given["after_tasks"], strict=True):
        holds = [(hold, rows) for hold, rows in _holds(transaction, reason).items() if hold > Hold(*after)]
        page = holds[: given["page"]]
        for hold, rows in page:
            mine = [row for row in rows if row.partition in given["partitions"]]
            if reason == "handler_unknown":
                mine = [row for row in mine if _have_handler(transaction, given, row)]
            room = room_of(transaction, given, reason, TaskName(*hold))
            _release(transaction, mine, min(room, given["most"]))
        if len(page) == given["page"]:
            full.append((reason, *page[-1][0]))
    return full


def room_of(transaction: Transaction, given: Given, reason: str, name: TaskName) -> int:
    """How many of those that the task type holds for this reason would find room now."""
    limits, most = type_of(transaction, name), int(given["most"])
    if reason == "task_paused":
        return 0 if limits.paused else most
    if reason == "concurrency" and limits.max_running is not None:
        return len(_untaken(transaction, name, 1, limits.max_running))
    if reason == "rate_limit" and limits.rate_per_s is not None:
        budget: Budget = transaction.get(TASK_BUDGETS, name)
        there = budget.tokens_at(transaction.server.now_ms(), limits)
        return math.floor(there) + math.ceil(2 * limits.rate_per_s)
    breaker = breaker_of(transaction, name)
    if reason == "breaker_open" and breaker is not None:
        is_open = (breaker.open_until_ms or 0) > transaction.server.now_ms()
        return 0 if is_open else len(_untaken(transaction, name, 0, 0))
    return most


def _untaken(transaction: Transaction, name: TaskName, first: int, last: int) -> list[int]:
    """Free ones, as a snapshot shows them."""
    slots = [transaction.get(TASK_SLOTS, (name, number)) for number in range(first, last + 1)]
    return [slot.slot_no for slot in slots if slot is not None and slot.execution_id is None]


def _have_handler(transaction: Transaction, given: Given, row: Execution) -> bool:
    """Whether there are workers of its pool, and all of them have its handler."""
    job = job_of(transaction, row)
    since_ms = transaction.server.now_ms() - given["silence"].total_seconds() * 1000
    workers: list[WorkerRow] = [worker for _, worker in transaction.rows(WORKERS)]
    able = [
        job.task in worker.tasks
        for worker in workers
        if worker.pool == job.pool and worker.seen_ms > since_ms
    ]
    return bool(able) and all(able)


@statement("held_for_workers")
def held_for_workers(transaction: Transaction, given: Given) -> list[Any]:
    found = []
    for row in _held(transaction, "handler_unknown"):
        job = job_of(transaction, row)
        if job.pool == given["pool"] and job.task in given["tasks"]:
            times = (row.scheduled_ms, int(row.due_ms), row.attempt)
            found.append((row.execution_id, row.job_id, row.partition, *times, job.priority))
    return found[: given["most"]]


# --- what jobs hold -----------------------------------------------------------------------------------


def _page(transaction: Transaction, given: Given, reason: str) -> dict[Hold, list[Execution]]:
    after = Hold(given["after_tenant"], given["after_job"])
    later = [(hold, rows) for hold, rows in _holds(transaction, reason).items() if hold > after]
    return dict(later[: given["page"]])


@statement("sweep_paused")
def sweep_paused(transaction: Transaction, given: Given) -> list[Any]:
    page = _page(transaction, given, "paused")
    for rows in page.values():
        holder = transaction.get(JOBS, id_of(rows[0].held_for or "")).row
        if rows[0].partition in given["partitions"] and holder.state != "paused":
            _release(transaction, rows, given["most"])
    return list(page)[-1:]


@statement("sweep_overlap")
def sweep_overlap(transaction: Transaction, given: Given) -> list[Any]:
    page = _page(transaction, given, "overlap")
    for rows in page.values():
        job_id = rows[0].job_id
        if rows[0].partition in given["partitions"] and transaction.get(OVERLAP_SLOTS, job_id) is None:
            hand_on_job_slot(transaction, job_id)
    return list(page)[-1:]


@statement("release_paused")
def release_paused(transaction: Transaction, given: Given) -> list[Any]:
    holder = text_of(given["job_id"])
    rows = [row for row in _held(transaction, "paused") if row.held_for == holder]
    return _release(transaction, rows, given["most"])


@statement("release_task")
def release_task(transaction: Transaction, given: Given) -> list[Any]:
    rows = sorted(
        row
        for _, row in transaction.rows(EXECUTIONS)
        if (row.state, row.job_id, row.held_for) == ("held", given["job_id"], given["task"])
        and is_free(transaction, EXECUTIONS, row.execution_id)
    )
    return _release(transaction, rows, given["most"])


@statement("skip_held")
def skip_held(transaction: Transaction, given: Given) -> list[Any]:
    rows = sorted(
        row
        for _, row in transaction.rows(EXECUTIONS)
        if (row.state, row.job_id, row.dag_run_id) == ("held", given["job_id"], None)
        and is_free(transaction, EXECUTIONS, row.execution_id)
    )
    skipped = [row._replace(state="skipped", reason="deleted") for row in rows[: given["most"]]]
    for row in skipped:
        put_execution(transaction, row)
    return [Written()] * len(skipped)


@statement("doom_held")
def doom_held(transaction: Transaction, given: Given) -> list[Any]:
    rows = _held_of_runs(transaction, given["job_id"])[: given["most"]]
    for row in rows:
        put_execution(transaction, row._replace(reason="deleted"))
    return [Written()] * len(rows)


def _held_of_runs(transaction: Transaction, job_id: bytes) -> list[Execution]:
    """Of runs of this DAG, or job with children; of a task, its own."""
    runs = {run_id: run for run_id, run in transaction.rows(DAG_RUNS) if run.state == "running"}
    return sorted(
        row
        for _, row in transaction.rows(EXECUTIONS)
        if row.dag_run_id in runs
        and job_id in (row.job_id, runs[row.dag_run_id].dag_id)
        and (row.state, row.reason == "deleted") == ("held", False)
        and is_free(transaction, EXECUTIONS, row.execution_id)
    )


@statement("note_deleted")
def note_deleted(transaction: Transaction, given: Given) -> list[Any]:
    partition = transaction.get(JOBS, given["job_id"]).row.partition
    transaction.put(DELETED_HELD, given["job_id"], DeletedHeld(given["job_id"], partition))
    return [Written()]


@statement("sweep_deleted")
def sweep_deleted(transaction: Transaction, given: Given) -> list[Any]:
    found = sorted(
        row.job_id
        for _, row in transaction.rows(DELETED_HELD)
        if row.partition in given["partitions"] and is_free(transaction, DELETED_HELD, row.job_id)
    )
    return [(job_id,) for job_id in found[: given["jobs"]]]


@statement("forget_deleted")
def forget_deleted(transaction: Transaction, given: Given) -> list[Any]:
    held = {
        row.job_id for _, row in transaction.rows(EXECUTIONS) if row.state == "held" and not row.dag_run_id
    }
    for job_id in set(given["job_ids"]) - held:
        if not _held_of_runs(transaction, job_id):
            transaction.put(DELETED_HELD, job_id, None)
    return []


# --- slots that were lost -----------------------------------------------------------------------------


@statement("sweep_slots")
def sweep_slots(transaction: Transaction, given: Given) -> list[Any]:
    taken = [(key, slot) for key, slot in transaction.rows(TASK_SLOTS) if slot.execution_id is not None]
    of_tasks = [
        (key, slot)
        for key, slot in taken
        if partition_of_id(slot.execution_id) in given["partitions"]
        and _state(transaction, slot.execution_id) != "running"
    ]
    of_jobs = [
        key
        for key, slot in transaction.rows(OVERLAP_SLOTS)
        if slot.partition in given["partitions"] and _state(transaction, slot.execution_id) not in UNFINISHED
    ]
    for key, slot in of_tasks:
        transaction.put(TASK_SLOTS, key, slot._replace(execution_id=None))
    for key in of_jobs:
        transaction.put(OVERLAP_SLOTS, key, None)
    return [(len(of_tasks) + len(of_jobs),)]


def _state(transaction: Transaction, execution_id: bytes) -> str | None:
    row: Execution | None = transaction.get(EXECUTIONS, execution_id)
    return None if row is None else row.state
