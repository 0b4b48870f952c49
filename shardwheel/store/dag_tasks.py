"""Executions of a DAG's tasks: one for each task of a run, one more for each item of a fan-out.

Their ids are computed from the run and the task (and the item), so whoever makes one twice makes one. A task
that fans out is an execution itself, which runs without a worker for as long as items of it are open:

    list ["a", "b"] → fan-out (running) ── item 0 {"item": "a"} ── ┐
                                        ── item 1 {"item": "b"} ── ┴ the last one ends the fan-out
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.dag_run import FAILED_FAST, RUN_FAILED, Ended
from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuid, Uuids
from shardwheel.store.dag_runs import Run
from shardwheel.store.sql import is_few, sql

MOST_ITEMS = 10_000
NOT_A_LIST = "fan_out_not_a_list"
TOO_LONG = "fan_out_too_long"
# Of all items together, with the task's params, which each of them has: more would not fit into the time and
# memory of whoever settles the parent.
MOST_PARAMS_BYTES = 32 * 1024 * 1024
TOO_LARGE = "fan_out_too_large"
ITEM_FAILED = "item_failed"
ITEM_SKIPPED = "item_skipped"


class NewTask(NamedTuple):
    """An execution to be made. `params` empty: the job's. `items`: how many a fan-out has."""

    run: Run
    task_id: bytes
    state: str
    reason: str = ""
    item_no: int | None = None
    params: str = ""
    items: int | None = None

    @property
    def execution_id(self) -> bytes:
        return self.run.execution_of(self.task_id, self.item_no)

    @property
    def ended(self) -> Ended:
        return Ended(self.run.run_id, self.task_id, self.item_no, self.state, self.reason or None)


def add_tasks(conn: Connection[Any], tasks: Sequence[NewTask]) -> list[NewTask]:
    """Make executions; those that were made: one that exists is left alone, unless it was pending again.
    Items are made, and counted, if their fan-out was: somebody may have ended that one by hand before."""
    made = _add(conn, [task for task in tasks if task.item_no is None])
    for task in made:
        if task.items is not None:
            _open_fan(conn, task.run, task.task_id, task.items)
    names = {(task.run.run_id, task.task_id) for task in made}
    items = [task for task in tasks if task.item_no is not None and (task.run.run_id, task.task_id) in names]
    if dead := [task.execution_id for task in made if task.state == "dead"]:
        conn.execute(sql("bury"), {"execution_ids": Uuids(dead)}, prepare=False)
    return made + _add(conn, items)


def _add(conn: Connection[Any], tasks: Sequence[NewTask]) -> list[NewTask]:
    if not tasks:
        return []
    ids = [task.execution_id for task in tasks]
    parameters = {
        "execution_ids": Uuids(ids),
        "run_ids": Uuids([task.run.run_id for task in tasks]),
        "task_ids": Uuids([task.task_id for task in tasks]),
        "item_nos": Bigints([-1 if task.item_no is None else task.item_no for task in tasks]),
        "states": Texts([task.state for task in tasks]),
        "reasons": Texts([task.reason for task in tasks]),
        "params": Texts([task.params for task in tasks]),
    }
    rows = conn.execute(sql("dag_add"), parameters, binary=True, prepare=is_few(len(tasks)))
    made = {row[0] for row in rows}
    return [task for task, made_id in zip(tasks, ids, strict=True) if made_id in made]


def fan_out(conn: Connection[Any], run: Run, task_id: bytes) -> list[NewTask]:
    """What becomes of a task that is ready and fans out: itself, and its items."""
    params, output = _source(conn, run, task_id)
    items = items_of(output)
    if items is None:
        return [NewTask(run, task_id, "dead", NOT_A_LIST)]
    if len(items) > MOST_ITEMS:
        return [NewTask(run, task_id, "dead", TOO_LONG)]
    if len(items) * len(msgspec.json.encode(params)) > MOST_PARAMS_BYTES:
        return [NewTask(run, task_id, "dead", TOO_LARGE)]
    if not items:
        return [NewTask(run, task_id, "succeeded", items=0)]
    made = [
        NewTask(
            run,
            task_id,
            "queued",
            item_no=number,
            params=msgspec.json.encode(params | {"item": item}).decode(),
        )
        for number, item in enumerate(items)
    ]
    return [NewTask(run, task_id, "running", items=len(items)), *made]


def items_of(output: Any) -> Sequence[Any] | None:
    """What a fan-out runs for: a list, or {"count": n}, which stands for 0 … n - 1 where a list would be too
    large for an output. None: it is neither. One too many stands for all that are too many."""
    if isinstance(output, list):
        return output
    counts = isinstance(output, dict) and output.keys() == {"count"}
    count = output["count"] if counts else None
    if type(count) is not int or count < 0:
        return None
    return range(min(count, MOST_ITEMS + 1))


def end_items(conn: Connection[Any], runs: dict[bytes, Run], items: Sequence[Ended]) -> list[Ended]:
    """Items are over: the fan-outs that are over by that."""
    if not items:
        return []
    parameters = {
        "run_ids": Uuids([item.run_id for item in items]),
        "task_ids": Uuids([item.task_id for item in items]),
        "failed": Booleans(item.state in ("dead", "cancelled") for item in items),
        "skipped": Booleans(item.state == "skipped" for item in items),
    }
    fans = conn.execute(sql("dag_fan_down"), parameters, binary=True, prepare=False).fetchall()
    return _end_fans(conn, runs, fans)


def close_fans(conn: Connection[Any], run: Run) -> None:
    """End fan-outs of a run of which nothing is under way, though their count says otherwise."""
    fans = conn.execute(sql("dag_close_fans"), {"run_id": Uuid(run.run_id)}, binary=True).fetchall()
    _end_fans(conn, {run.run_id: run}, fans)


def _end_fans(conn: Connection[Any], runs: dict[bytes, Run], fans: Sequence[Any]) -> list[Ended]:
    tasks = [
        _end_of(runs[run_id], task_id, failed, skipped)
        for run_id, task_id, is_open, failed, skipped in fans
        if not is_open
    ]
    if not tasks:
        return []
    parameters = {
        "execution_ids": Uuids([task.execution_id for task in tasks]),
        "states": Texts([task.state for task in tasks]),
        "reasons": Texts([task.reason for task in tasks]),
    }
    changed = {row[0] for row in conn.execute(sql("dag_end_tasks"), parameters, binary=True, prepare=False)}
    return [task.ended for task in tasks if task.execution_id in changed]


def _end_of(run: Run, task_id: bytes, failed_items: int, skipped_items: int) -> NewTask:
    """As a child with these parents would: a failed item outweighs a skipped one, and that all others. What
    waits for all items must not run without one of them. Items that were skipped because another task failed
    are no failure of this one: it is skipped as they are, and goes on when the run does."""
    if failed_items and run.state == "cancelled":
        return NewTask(run, task_id, "cancelled", "cancelled")
    if failed_items:
        return NewTask(run, task_id, "dead", ITEM_FAILED)
    if skipped_items:
        reason = RUN_FAILED if run.reason == FAILED_FAST else ITEM_SKIPPED
        return NewTask(run, task_id, "skipped", reason)
    return NewTask(run, task_id, "succeeded")


def _open_fan(conn: Connection[Any], run: Run, task_id: bytes, items: int) -> None:
    given = {"run_id": Uuid(run.run_id), "task_id": Uuid(task_id), "items": items}
    conn.execute(sql("dag_open_fan"), given)


def _source(conn: Connection[Any], run: Run, task_id: bytes) -> tuple[dict[str, Any], Any]:
    given = {
        "run_id": Uuid(run.run_id),
        "task_id": Uuid(task_id),
        "dag_id": Uuid(run.dag_id),
        "version": run.version,
    }
    rows = conn.execute(sql("dag_fan_source"), given, binary=True).fetchall()
    params, parent_fans_out = rows[0][:2]
    return msgspec.json.decode(params), output_of(parent_fans_out, ((row[2], row[3]) for row in rows))


def output_of(fans_out: bool, rows: Iterable[tuple[int | None, bytes | None]]) -> Any:
    """A task's output from its executions' (item, output); of a fan-out, the list of its items', in order."""
    found = [(item_no, None if output is None else msgspec.json.decode(output)) for item_no, output in rows]
    if not fans_out:
        return found[0][1]
    own = [output for item_no, output in found if item_no is None and output is not None]
    return own[0] if own else [output for item_no, output in found if item_no is not None]
