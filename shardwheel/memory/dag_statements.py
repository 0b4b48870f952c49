"""The statements of DAG runs: twins of the .sql files of the same names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.dag_rows import (
    DAG_COUNTERS,
    DAG_EDGES,
    DAG_PUT_OFF,
    DAG_RUNS,
    DAG_TASKS,
    DAG_VERSIONS,
    DagCounter,
    DagEdge,
    DagRun,
    DagTask,
    DagVersion,
)
from shardwheel.memory.rows import EXECUTIONS, JOBS, UNFINISHED, Execution, put_execution, whole_now_ms
from shardwheel.memory.transaction import Transaction


def versions_of(transaction: Transaction, dag_id: bytes) -> list[DagVersion]:
    return sorted(row for _, row in transaction.rows(DAG_VERSIONS) if row.dag_id == dag_id)


def tasks_of(transaction: Transaction, dag_id: bytes, version: int) -> list[DagTask]:
    found = [row for _, row in transaction.rows(DAG_TASKS) if (row.dag_id, row.version) == (dag_id, version)]
    return sorted(found, key=lambda task: task.task_id)


def edges_of(transaction: Transaction, dag_id: bytes, version: int) -> Iterator[DagEdge]:
    found = [row for _, row in transaction.rows(DAG_EDGES) if (row.dag_id, row.version) == (dag_id, version)]
    return iter(sorted(found))


def executions_of(transaction: Transaction, run_id: bytes) -> list[Execution]:
    return sorted(row for _, row in transaction.rows(EXECUTIONS) if row.dag_run_id == run_id)


def number_of(row: Execution) -> int:
    """As it is put off: -1 is a task itself."""
    return -1 if row.item_no is None else row.item_no


@statement("dag_start")
def dag_start(transaction: Transaction, given: Given) -> list[Any]:
    made = []
    for execution_id in sorted(given["execution_ids"]):
        row: Execution = transaction.get(EXECUTIONS, execution_id)
        if transaction.get(DAG_RUNS, execution_id) is not None:
            continue
        version = versions_of(transaction, row.job_id)[-1]
        sla_ms = None if version.sla_ms is None else row.scheduled_ms + version.sla_ms
        tasks = tasks_of(transaction, row.job_id, version.version)
        head = (execution_id, row.tenant_id, row.partition, row.job_id, version.version)
        given_to_run = row.params if transaction.get(JOBS, row.job_id).row.kind == "dag" else None
        run = DagRun(*head, row.origin, row.scheduled_ms, sla_ms, len(tasks), given_to_run)
        transaction.put(DAG_RUNS, execution_id, run)
        made.append((execution_id,))
    return made


@statement("dag_roots")
def dag_roots(transaction: Transaction, given: Given) -> list[Any]:
    runs = [transaction.get(DAG_RUNS, run_id) for run_id in given["run_ids"]]
    return [
        (run.dag_run_id, task.task_id, task.fan_out)
        for run in runs
        for task in tasks_of(transaction, run.dag_id, run.version)
        if not task.in_degree and task.task_id != run.dag_id
    ]


@statement("dag_lock_runs")
def dag_lock_runs(transaction: Transaction, given: Given) -> list[Any]:
    found = []
    for run_id in sorted(given["run_ids"]):
        if transaction.get(DAG_RUNS, run_id) is None:
            continue
        transaction.lock(DAG_RUNS, run_id)
        run: DagRun = transaction.get(DAG_RUNS, run_id)
        version: DagVersion = transaction.get(DAG_VERSIONS, (run.dag_id, run.version))
        job = transaction.get(JOBS, run.dag_id).row
        head = (run_id, run.tenant_id, run.partition, run.dag_id, run.version, run.state, run.reason)
        figures = (run.unfinished, run.succeeded, run.failed, run.skipped, run.rounds)
        rounds = job.max_retries if version.max_retries is None else version.max_retries
        backoff = msgspec.json.encode(job.backoff) if version.backoff is None else version.backoff.encode()
        limits = (version.policy, rounds, backoff, job.kind == "dag")
        found.append((*head, run.scheduled_ms, run.sla_ms, *figures, *limits))
    return found


@statement("dag_store_runs")
def dag_store_runs(transaction: Transaction, given: Given) -> list[Any]:
    names = ("states", "reasons", "unfinished", "succeeded", "failed", "skipped", "rounds")
    for run_id, over, *figures in zip(
        given["run_ids"], given["over"], *(given[name] for name in names), strict=True
    ):
        run: DagRun = transaction.get(DAG_RUNS, run_id)
        fields = ("state", "reason", *names[2:])
        ended_ms = transaction.server.now_ms() if over else None
        changed = run._replace(**dict(zip(fields, figures, strict=True)), ended_ms=ended_ms)
        transaction.put(DAG_RUNS, run_id, changed)
    return [Written() for _ in given["run_ids"]]


@statement("dag_count_down")
def dag_count_down(transaction: Transaction, given: Given) -> list[Any]:
    names = ("run_ids", "dag_ids", "versions", "task_ids", "failed", "skipped")
    told: Counter[tuple[Any, ...]] = Counter()
    failures: Counter[tuple[Any, ...]] = Counter()
    skips: Counter[tuple[Any, ...]] = Counter()
    for run_id, dag_id, version, task_id, failed, skipped in zip(
        *(given[name] for name in names), strict=True
    ):
        for edge in edges_of(transaction, dag_id, version):
            if edge.parent_id == task_id:
                key = (run_id, edge.child_id, dag_id, version)
                told[key] += 1
                failures[key] += failed
                skips[key] += skipped
    ready = []
    for key, number in told.items():
        run_id, child_id, dag_id, version = key
        task: DagTask = transaction.get(DAG_TASKS, (dag_id, version, child_id))
        old = transaction.get(DAG_COUNTERS, key[:2]) or DagCounter(run_id, child_id, task.in_degree, 0, 0)
        counter = DagCounter(
            run_id, child_id, old.pending - number, old.failed + failures[key], old.skipped + skips[key]
        )
        transaction.put(DAG_COUNTERS, key[:2], counter)
        if counter.pending == 0:
            ready.append((run_id, child_id, task.fan_out, *counter[2:]))
    return ready


@statement("dag_set_counters")
def dag_set_counters(transaction: Transaction, given: Given) -> list[Any]:
    run_id = given["run_id"]
    names = ("child_ids", "pending", "failed", "skipped")
    for child_id, *counts in zip(*(given[name] for name in names), strict=True):
        transaction.put(DAG_COUNTERS, (run_id, child_id), DagCounter(run_id, child_id, *counts))
    return [Written() for _ in given["child_ids"]]


@statement("dag_add")
def dag_add(transaction: Transaction, given: Given) -> list[Any]:
    names = ("execution_ids", "run_ids", "task_ids", "item_nos", "states", "reasons", "params")
    made = []
    for execution_id, run_id, task_id, item_no, state, reason, params in sorted(
        zip(*(given[name] for name in names), strict=True)
    ):
        run: DagRun = transaction.get(DAG_RUNS, run_id)
        old: Execution | None = transaction.get(EXECUTIONS, execution_id)
        if old is not None and (old.state, old.reason) != ("skipped", "pending_again"):
            continue
        head = (execution_id, run.tenant_id, run.partition, task_id, 4, "dag", state, run.scheduled_ms)
        row = Execution(
            *head,
            whole_now_ms(transaction),
            reason=reason or None,
            attempt=1 if old is None else old.attempt + 1,
            dag_run_id=run_id,
            item_no=None if item_no < 0 else item_no,
            params=params or params_of(transaction, run, task_id),
            started_ms=transaction.server.now_ms() if state == "running" else None,
        )
        put_execution(transaction, row)
        made.append((execution_id,))
    return made


def params_of(transaction: Transaction, run: DagRun, task_id: bytes) -> str | None:
    """A task's params with those of its run's trigger over them; None: it has its job's."""
    if run.params is None:
        return None
    params = transaction.get(JOBS, task_id).row.params | msgspec.json.decode(run.params)
    return msgspec.json.encode(params).decode()


@statement("dag_tasks_of_run")
def dag_tasks_of_run(transaction: Transaction, given: Given) -> list[Any]:
    rows = {row.job_id: row for row in executions_of(transaction, given["run_id"]) if row.item_no is None}
    found = []
    for task in tasks_of(transaction, given["dag_id"], given["version"]):
        row = rows.get(task.task_id)
        stand = (None, None) if row is None else (row.state, row.reason)
        is_untold = transaction.get(DAG_PUT_OFF, (given["run_id"], task.task_id, -1)) is not None
        found.append((task.task_id, task.task_key, task.fan_out, *stand, is_untold))
    return found


@statement("dag_edges_of_version")
def dag_edges_of_version(transaction: Transaction, given: Given) -> list[Any]:
    edges = edges_of(transaction, given["dag_id"], given["version"])
    return [(edge.parent_id, edge.child_id) for edge in edges]


@statement("dag_end_tasks")
def dag_end_tasks(transaction: Transaction, given: Given) -> list[Any]:
    ended = []
    for execution_id, state, reason in zip(
        given["execution_ids"], given["states"], given["reasons"], strict=True
    ):
        row: Execution = transaction.get(EXECUTIONS, execution_id)
        if row.state == "running" and row.lease_until_ms is None:
            put_execution(transaction, row._replace(state=state, reason=reason or None))
            ended.append((execution_id,))
    return ended


@statement("dag_stop")
def dag_stop(transaction: Transaction, given: Given) -> list[Any]:
    stopped = []
    for row in _meant(transaction, given):
        transaction.lock(EXECUTIONS, row.execution_id)
        if row.state in UNFINISHED and row.state != "running":
            put_execution(transaction, row._replace(state=given["state"], reason=given["reason"]))
            stopped.append((row.dag_run_id, row.job_id, row.item_no, given["state"], given["reason"]))
    return stopped


def _meant(transaction: Transaction, given: Given) -> list[Execution]:
    """Of a run, or of one task in it."""
    rows = executions_of(transaction, given["run_id"])
    return [row for row in rows if given["task_id"] in (None, row.job_id)]


@statement("dag_ask_to_stop")
def dag_ask_to_stop(transaction: Transaction, given: Given) -> list[Any]:
    running = [
        row for row in _meant(transaction, given) if row.state == "running" and row.lease_until_ms is not None
    ]
    for row in running:
        put_execution(transaction, row._replace(asked_to_stop=True))
    return running
