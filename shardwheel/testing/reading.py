"""What became of things, read from the tables in memory and answered as the API answers it."""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.errors import NotFoundError
from shardwheel.execution import TERMINAL_STATES
from shardwheel.ids import fire_id, partition_of_id, scheduled_ms_of, text_of
from shardwheel.memory.dag_rows import DAG_FANS, DAG_RUNS, DagRun
from shardwheel.memory.rows import DEAD_LETTERS, EXECUTIONS, JOBS, Execution
from shardwheel.output import shown_time
from shardwheel.store.dag_reading import dag_of, task_ids_of
from shardwheel.store.dag_row import RunRow, RunTaskRow
from shardwheel.store.execution_row import ExecutionRow
from shardwheel.store.jobs import get_job
from shardwheel.store.letter_row import LetterRow
from shardwheel.store.settle import OUTCOME_WORDS
from shardwheel.testing.engine import Engine, Letter
from shardwheel.wire import Outcome, Result


def executions(engine: Engine) -> list[dict[str, Any]]:
    """The latest scheduled time first."""
    rows = sorted(engine.server.tables[EXECUTIONS].values(), reverse=True)
    return [_shown(engine, row) for row in rows]


def execution(engine: Engine, execution_id: bytes) -> dict[str, Any]:
    attempts = [_attempt(result) for result in _results(engine, execution_id)]
    return _shown(engine, _row(engine, execution_id)) | {"attempts": attempts}


def explanation(engine: Engine, some_id: bytes) -> dict[str, Any]:
    """That it is there, or to come; `NotFoundError` if neither."""
    shown = {"id": text_of(some_id), "kind": "execution", "reason": None}
    row = engine.server.tables[EXECUTIONS].get(some_id)
    if row is not None:
        return shown | {"state": row.state, "reason": row.reason, "sentence": f"It is {row.state}."}
    partition, scheduled_ms = partition_of_id(some_id), scheduled_ms_of(some_id)
    for stored in engine.server.tables[JOBS].values():
        if fire_id(stored.row.job_id, partition, scheduled_ms) == some_id:
            return shown | {"state": "none", "sentence": f"It is due at {shown_time(scheduled_ms)}."}
    raise NotFoundError(f"there is no execution {text_of(some_id)}", field="id")


def letters(engine: Engine) -> list[dict[str, Any]]:
    return [_letter(engine, row) for row in reversed(engine.server.tables[DEAD_LETTERS].values())]


def letter(engine: Engine, letter_id: bytes) -> dict[str, Any]:
    for row in engine.server.tables[DEAD_LETTERS].values():
        if row.execution_id == letter_id:
            results = _results(engine, letter_id)
            params = engine.server.tables[JOBS][row.job_id].row.params
            return _letter(engine, row) | {
                "params": params if row.params is None else msgspec.json.decode(row.params),
                "attempts": [_attempt(result) for result in results],
                "traceback": results[-1].traceback,
            }
    raise NotFoundError(f"there is no dead letter {text_of(letter_id)}", field="id")


def dag_runs(engine: Engine, dag_id: bytes) -> list[dict[str, Any]]:
    runs = sorted(engine.server.tables[DAG_RUNS].values(), reverse=True)
    return [_run_row(engine, run).as_read() for run in runs if run.dag_id == dag_id]


def dag_run(engine: Engine, tenant: str, run_id: bytes) -> dict[str, Any]:
    """Also of one that has not begun: then without its tasks."""
    run: DagRun | None = engine.server.tables[DAG_RUNS].get(run_id)
    if run is None:
        begun = _row(engine, run_id)
        times = (begun.scheduled_ms, None, None, None, None, 0, 0, 0, 0)
        waits = RunRow(run_id, begun.job_id, None, begun.state, begun.reason, begun.origin, *times)
        return waits.as_read() | {"params": _decoded(begun.params), "tasks": []}
    dag = engine.transact(lambda conn: dag_of(conn, get_job(conn, tenant, run.dag_id), run.version))
    task_ids = engine.transact(task_ids_of, dag)
    tasks = [_task(engine, run, task, task_ids[task["key"]]) for task in dag.definition["tasks"]]
    whole = {"params": _decoded(run.params), "dag": dag.job.name, "policy": dag.policy, "tasks": tasks}
    return _run_row(engine, run).as_read() | whole


def _decoded(params: str | None) -> dict[str, Any] | None:
    """What a trigger gave to a run."""
    return None if params is None else msgspec.json.decode(params)


def _run_row(engine: Engine, run: DagRun) -> RunRow:
    row = _row(engine, run.dag_run_id)
    ended_ms = None if run.ended_ms is None else int(run.ended_ms)
    times = (run.scheduled_ms, int(row.started_ms or 0), ended_ms, run.sla_ms)
    head = (run.dag_run_id, run.dag_id, run.version, run.state, run.reason or None, run.origin)
    return RunRow(*head, *times, run.unfinished, run.succeeded, run.failed, run.skipped, run.rounds)


def _task(engine: Engine, run: DagRun, task: dict[str, Any], task_id: bytes) -> dict[str, Any]:
    rows = [
        row
        for row in engine.server.tables[EXECUTIONS].values()
        if row.dag_run_id == run.dag_run_id and row.job_id == task_id and row.item_no is None
    ]
    row = rows[0] if rows else None
    fan = engine.server.tables[DAG_FANS].get((run.dag_run_id, task_id))
    fans = (None,) * 4 if fan is None else fan[2:]
    if row is None:
        nothing = (None,) * 10
        return RunTaskRow(task["key"], task_id, *nothing, *fans).as_read(task, run.state)
    shown = _execution_row(engine, row)
    columns = (row.execution_id, row.state, row.reason, row.attempt, row.failures)
    times = (shown.started_ms, shown.ended_ms, shown.duration_ms, shown.output, False)
    return RunTaskRow(task["key"], task_id, *columns, *times, *fans).as_read(task, run.state)


def _row(engine: Engine, execution_id: bytes) -> Execution:
    row: Execution | None = engine.server.tables[EXECUTIONS].get(execution_id)
    if row is None:
        raise NotFoundError(f"there is no execution {text_of(execution_id)}", field="id")
    return row


def _results(engine: Engine, execution_id: bytes) -> list[Result]:
    """Of attempts that are over by now."""
    return [
        result
        for claimed, result in engine.results
        if claimed.execution_id == execution_id and result.ended_ms <= engine.now_ms
    ]


def _execution_row(engine: Engine, row: Execution) -> ExecutionRow:
    results = _results(engine, row.execution_id)
    last = results[-1] if results and row.state in TERMINAL_STATES else None
    return ExecutionRow(
        row.execution_id,
        row.job_id,
        engine.server.tables[JOBS][row.job_id].row.task,
        row.state,
        row.reason,
        row.origin,
        row.scheduled_ms,
        int(row.due_ms),
        row.attempt,
        row.failures,
        row.crashes,
        row.worker,
        None if row.started_ms is None else int(row.started_ms),
        None if last is None else last.ended_ms,
        None if last is None else last.ended_ms - last.started_ms,
        None,
        engine.desk.progresses.get(row.execution_id),
        msgspec.json.decode(row.output) if row.output else None,
        row.dag_run_id,
    )


def _shown(engine: Engine, row: Execution) -> dict[str, Any]:
    return _execution_row(engine, row).as_read() | {"tags": engine.server.tables[JOBS][row.job_id].row.tags}


def _attempt(result: Result) -> dict[str, Any]:
    return {
        "attempt": result.attempt,
        "outcome": OUTCOME_WORDS[Outcome(result.outcome)],
        "class": result.error_class or None,
        "message": result.message or None,
        "traceback": result.traceback or None,
        "worker": result.worker,
        "slot_ms": result.ended_ms - result.started_ms,
        "started_at": shown_time(result.started_ms),
        "ended_at": shown_time(result.ended_ms),
    }


def _letter(engine: Engine, row: Execution) -> dict[str, Any]:
    last = _results(engine, row.execution_id)[-1]
    job = engine.server.tables[JOBS][row.job_id].row
    return LetterRow(
        row.execution_id,
        row.execution_id,
        row.job_id,
        row.dag_run_id,
        row.partition,
        job.task,
        engine.letters.get(row.execution_id, Letter()).state,
        row.reason or "",
        last.error_class or None,
        last.message or None,
        last.worker,
        row.origin,
        row.scheduled_ms,
        row.attempt,
        row.failures,
        row.crashes,
        last.ended_ms,
        engine.letters.get(row.execution_id, Letter()).redriven_as,
        None,
        None,
    ).as_read() | {"tags": job.tags}
