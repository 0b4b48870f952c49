"""The statements on task types, tallies, breakers and workers: twins of the .sql files of the same names."""

from __future__ import annotations

from typing import Any

from shardwheel.limits import Tally, TaskName, TaskType
from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.hold_rows import (
    PROBE,
    TASK_BREAKERS,
    TASK_BUDGETS,
    TASK_SLOTS,
    TASK_TALLIES,
    TASK_TYPES,
    WORKERS,
    Breaker,
    Budget,
    LimitedType,
    TallySpan,
    TaskSlot,
    WorkerRow,
)
from shardwheel.memory.rows import EXECUTIONS, JOBS
from shardwheel.memory.slots import lock_whole_table, type_of
from shardwheel.memory.transaction import Transaction

_SPAN_MS = 30_000
_FORGOTTEN_MS = 3_600_000
_OF_A_TASK = ("task_paused", "concurrency", "rate_limit", "breaker_open", "handler_unknown")


# --- task types ---------------------------------------------------------------------------------------


@statement("has_task_type")
def has_task_type(transaction: Transaction, given: Given) -> list[Any]:
    return [] if transaction.get(TASK_TYPES, TaskName(given["tenant_id"], given["task"])) is None else [(1,)]


@statement("lock_task_types")
def lock_task_types(transaction: Transaction, given: Given) -> list[Any]:
    lock_whole_table(transaction)
    return []


@statement("set_task_type")
def set_task_type(transaction: Transaction, given: Given) -> list[Any]:
    name = TaskName(given["tenant_id"], given["task"])
    transaction.lock(TASK_TYPES, name)
    row = type_of(transaction, name)
    if given["paused"] is not None:
        row = row._replace(paused=given["paused"])
    if given["breaker"] is not None:
        row = row._replace(breaker=given["breaker"])
    if given["set_running"]:
        row = row._replace(max_running=given["max_running"])
    if given["set_rate"]:
        row = row._replace(rate_per_s=given["rate_per_s"], burst=given["burst"])
    transaction.put(TASK_TYPES, name, row)
    return [Written()]


@statement("fit_task_slots")
def fit_task_slots(transaction: Transaction, given: Given) -> list[Any]:
    name = TaskName(given["tenant_id"], given["task"])
    limits = type_of(transaction, name)
    _fit_slots(transaction, limits)
    breaker: Breaker | None = transaction.get(TASK_BREAKERS, name)
    if not limits.breaker and breaker is not None and breaker.open_until_ms is not None:
        closed = breaker._replace(open_until_ms=None, closed_ms=transaction.server.now_ms())
        transaction.put(TASK_BREAKERS, name, closed)
    has_budget = transaction.get(TASK_BUDGETS, name) is not None
    if limits.rate_per_s is None and has_budget:
        transaction.put(TASK_BUDGETS, name, None)
    elif limits.rate_per_s is not None and not has_budget:
        transaction.put(TASK_BUDGETS, name, Budget(name, 0, transaction.server.now_ms()))
    return []


def _fit_slots(transaction: Transaction, limits: LimitedType) -> None:
    there = {slot.slot_no: slot for slot in _slots(transaction, limits.name)}
    for number in range(1, (limits.max_running or 0) + 1):
        if number not in there:
            transaction.put(TASK_SLOTS, (limits.name, number), TaskSlot(limits.name, number))
    for number, slot in there.items():
        if number > (limits.max_running or 0) and slot.execution_id is None:
            transaction.put(TASK_SLOTS, (limits.name, number), None)


def _slots(transaction: Transaction, name: TaskName) -> list[TaskSlot]:
    return [slot for _, slot in transaction.rows(TASK_SLOTS) if slot.name == name]


@statement("list_tasks")
def list_tasks(transaction: Transaction, given: Given) -> list[Any]:
    tenant_id = given["tenant_id"]
    of_jobs = {
        job.row.task
        for _, job in transaction.rows(JOBS)
        if job.row.tenant_id == tenant_id and job.row.state != "deleted" and job.row.task
    }
    of_types = {row.name.task for _, row in transaction.rows(TASK_TYPES) if row.name.tenant_id == tenant_id}
    names = [TaskName(tenant_id, task) for task in sorted(of_jobs | of_types)]
    return [_shown(transaction, name) for name in names if given["task"] in (None, name.task)]


def _shown(transaction: Transaction, name: TaskName) -> TaskType:
    limits = type_of(transaction, name)
    breaker: Breaker | None = transaction.get(TASK_BREAKERS, name)
    open_until_ms = None if breaker is None else breaker.open_until_ms
    taken = sum(slot.slot_no > 0 and slot.execution_id is not None for slot in _slots(transaction, name))
    held = sum(
        (row.state, row.tenant_id, row.held_for) == ("held", *name) and row.reason in _OF_A_TASK
        for _, row in transaction.rows(EXECUTIONS)
    )
    return TaskType(
        name.task,
        limits.paused,
        limits.max_running,
        limits.rate_per_s,
        limits.burst,
        limits.breaker,
        None if open_until_ms is None else int(open_until_ms),
        None if limits.max_running is None else taken,
        held,
    )


# --- tallies and breakers -----------------------------------------------------------------------------


@statement("add_tallies")
def add_tallies(transaction: Transaction, given: Given) -> list[Any]:
    names = ("tenants", "tasks", "runs", "failures", "firsts", "retries")
    since_ms = transaction.server.now_ms() // _SPAN_MS * _SPAN_MS
    for tenant_id, task, *counts in sorted(zip(*(given[name] for name in names), strict=True)):
        name = TaskName(tenant_id, task)
        key = (name, since_ms, given["lane"])
        transaction.lock(TASK_TALLIES, key)
        old: TallySpan | None = transaction.get(TASK_TALLIES, key)
        tally = Tally(*counts).plus(old.tally if old is not None else Tally())
        transaction.put(TASK_TALLIES, key, TallySpan(name, since_ms, tally))
    return []


@statement("judge_breakers")
def judge_breakers(transaction: Transaction, given: Given) -> list[Any]:
    names = ("tenants", "tasks", "runs", "failures")
    opened: list[TaskName] = []
    for tenant_id, task, runs, failures in sorted(zip(*(given[name] for name in names), strict=True)):
        name = TaskName(tenant_id, task)
        transaction.lock(TASK_BREAKERS, name)
        breaker: Breaker = transaction.get(TASK_BREAKERS, name) or Breaker(name, None)
        if breaker.open_until_ms is None:
            opened += _open_if_bad(transaction, given, breaker)
        elif breaker.open_until_ms <= transaction.server.now_ms() and runs:
            judge_probation(transaction, given, breaker, failures)
    return opened


def _open_if_bad(transaction: Transaction, given: Given, breaker: Breaker) -> list[TaskName]:
    now_ms = transaction.server.now_ms()
    from_ms = now_ms - given["window"].total_seconds() * 1000
    counted = Tally()
    for _, span in transaction.rows(TASK_TALLIES):
        if span.name == breaker.name and span.since_ms > max(from_ms, breaker.closed_ms or 0):
            counted = counted.plus(span.tally)
    is_bad = counted.runs >= given["least_runs"] and counted.failures >= counted.runs * given["share"]
    if not is_bad or not type_of(transaction, breaker.name).breaker:
        return []
    open_until_ms = now_ms + given["open_for"].total_seconds() * 1000
    transaction.put(TASK_BREAKERS, breaker.name, breaker._replace(open_until_ms=open_until_ms))
    if transaction.get(TASK_SLOTS, (breaker.name, PROBE)) is None:
        transaction.put(TASK_SLOTS, (breaker.name, PROBE), TaskSlot(breaker.name, PROBE))
    return [breaker.name]


def judge_probation(transaction: Transaction, given: Given, breaker: Breaker, failures: int) -> None:
    """A run that ended says how it is: well, or open again."""
    now_ms = transaction.server.now_ms()
    if failures:
        judged = breaker._replace(open_until_ms=now_ms + given["open_for"].total_seconds() * 1000)
    else:
        judged = breaker._replace(open_until_ms=None, closed_ms=now_ms)
    transaction.put(TASK_BREAKERS, breaker.name, judged)


@statement("drop_tallies")
def drop_tallies(transaction: Transaction, given: Given) -> list[Any]:
    before_ms = transaction.server.now_ms() - given["kept"].total_seconds() * 1000
    old = [key for key, span in transaction.rows(TASK_TALLIES) if span.since_ms < before_ms]
    for key in old:
        transaction.put(TASK_TALLIES, key, None)
    return [Written()] * len(old)


# --- workers ------------------------------------------------------------------------------------------


@statement("announce_worker")
def announce_worker(transaction: Transaction, given: Given) -> list[Any]:
    now_ms = transaction.server.now_ms()
    for worker_id, worker in transaction.rows(WORKERS):
        if worker.seen_ms < now_ms - _FORGOTTEN_MS:
            transaction.put(WORKERS, worker_id, None)
    row = WorkerRow(given["worker_id"], given["pool"], frozenset(given["tasks"]), now_ms)
    transaction.put(WORKERS, row.worker_id, row)
    return [Written()]


@statement("withdraw_worker")
def withdraw_worker(transaction: Transaction, given: Given) -> list[Any]:
    if transaction.get(WORKERS, given["worker_id"]) is None:
        return []
    transaction.put(WORKERS, given["worker_id"], None)
    return [Written()]
