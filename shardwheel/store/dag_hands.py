"""What people do to a run: complete or skip a task, run failed ones again, cancel all of it.

Each locks the run first, as every end of a task does, so it is either before or after whatever happens at
the same moment. Said twice, the second changes nothing. What can't be done is refused with the reason. What
the run was not told of yet (`dag_put_off`) it is told first: people see the rows, and mean what they see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.dag_run import SKIPPED_BY_HAND, SKIPPED_WITH_CHILDREN, Ended, TaskStand
from shardwheel.errors import ConflictError, NotFoundError
from shardwheel.execution import Resolved
from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.dag_put_off import EVERY_END, tell_runs
from shardwheel.store.dag_resolve import Resolution
from shardwheel.store.dag_runs import Run, lock_runs, tasks_of
from shardwheel.store.sql import sql
from shardwheel.times import refuse

OUTPUT_LIMIT_BYTES = 10_240
_DONE = ("succeeded", "force_completed")


class Hand(NamedTuple):
    """Whose hand it is."""

    tenant_id: str
    actor: str
    role: str = ""


class Done(NamedTuple):
    """Whether it changed anything, and what followed."""

    changed: bool
    resolved: Resolved = Resolved()

    def after(self, told: Resolved) -> Done:
        """With what had followed before, when the run was told of what was put off."""
        return self._replace(resolved=told.and_also(self.resolved))


def force_complete(conn: Connection[Any], hand: Hand, run_id: bytes, key: str, output: Any = None) -> Done:
    """Say that a task is done, with this output; its children go on as if it had succeeded."""
    encoded = msgspec.json.encode(output)
    if len(encoded) > OUTPUT_LIMIT_BYTES:
        refuse(
            "output",
            f"takes {len(encoded)} bytes",
            "10 KB is the most; store it elsewhere and give a reference",
        )
    run, told = _locked(conn, hand, run_id)
    task = _task(conn, run, key)
    if task.state == "force_completed":
        return Done(False, told)
    _refuse_done(task)
    return _mend(conn, hand, run, task, "force_completed", None, encoded).after(told)


def skip_task(
    conn: Connection[Any], hand: Hand, run_id: bytes, key: str, children: Literal["run", "skip"] = "run"
) -> Done:
    """Leave a task out; its children run as if it had succeeded, or are skipped as well."""
    if children not in ("run", "skip"):
        refuse("children", f"{children!r} is neither run nor skip", "say what becomes of its children")
    reason = SKIPPED_BY_HAND if children == "run" else SKIPPED_WITH_CHILDREN
    run, told = _locked(conn, hand, run_id)
    task = _task(conn, run, key)
    if (task.state, task.reason) == ("skipped", reason):
        return Done(False, told)
    _refuse_done(task)
    return _mend(conn, hand, run, task, "skipped", reason, b"null").after(told)


def rerun(conn: Connection[Any], hand: Hand, run_id: bytes, keys: Sequence[str] | None = None) -> Done:
    """Let the run go on from its failed tasks (all, or these): what succeeded stays as it is."""
    run, told = _locked(conn, hand, run_id)
    tasks = tasks_of(conn, run).values()
    unknown = sorted(set(keys or ()) - {task.key for task in tasks})
    if unknown:
        raise NotFoundError(f"run {text_of(run_id)} has no task {unknown[0]!r}", field="task")
    failed = [
        task for task in tasks if task.state in ("dead", "cancelled") and (keys is None or task.key in keys)
    ]
    if not failed:
        if run.state == "running":
            return Done(False, told)
        raise ConflictError(f"run {text_of(run_id)} has no failed task: it is {run.state}", field="run")
    return _do(
        conn,
        hand,
        run,
        "dag_run.rerun",
        {"tasks": {task.key: task.state for task in failed}},
        {"tasks": dict.fromkeys([task.key for task in failed], "queued")},
        lambda resolution: resolution.requeue(run, hand.actor, task_ids=[task.task_id for task in failed]),
    ).after(told)


def cancel_run(conn: Connection[Any], hand: Hand, run_id: bytes) -> Done:
    """Nothing more of the run begins, and what runs is asked to stop. One that is over stays as it is."""
    run, told = _locked(conn, hand, run_id, cancelled_too=True)
    if run.state != "running":
        return Done(False, told)

    def cancel(resolution: Resolution) -> None:
        run.state, run.reason = "cancelled", "cancelled"
        resolution.stop(run, "cancelled", "cancelled")

    return _do(conn, hand, run, "dag_run.cancel", {}, {}, cancel).after(told)


def _mend(
    conn: Connection[Any],
    hand: Hand,
    run: Run,
    task: TaskStand,
    state: str,
    reason: str | None,
    output: bytes,
) -> Done:
    given = {
        "execution_id": Uuid(run.execution_of(task.task_id)),
        "run_id": Uuid(run.run_id),
        "task_id": Uuid(task.task_id),
        "state": state,
        "reason": reason,
        "output": None if output == b"null" else output.decode(),
    }

    def mend(resolution: Resolution) -> None:
        conn.execute(sql("dag_mend"), given)
        if task.fan_out:
            resolution.stop_items(run, task.task_id)
        if task.is_over:
            resolution.requeue(run, hand.actor, task_ids=[])
        else:
            resolution.follow([Ended(run.run_id, task.task_id, None, state, reason)])

    action = "dag_task.force_complete" if state == "force_completed" else "dag_task.skip"
    before, after = {task.key: task.state or "pending"}, {task.key: state}
    return _do(conn, hand, run, action, {"tasks": before}, {"tasks": after}, mend)


def _do(
    conn: Connection[Any],
    hand: Hand,
    run: Run,
    action: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    change: Callable[[Resolution], object],
) -> Done:
    resolution, was = Resolution(conn, {run.run_id: run}), run.state
    change(resolution)
    resolved = resolution.close()
    details = {"before": {"state": was, **before}, "after": {"state": run.state, **after}}
    actor = Actor(hand.actor, hand.role)
    write_audit(conn, hand.tenant_id, actor, action, "dag_run", text_of(run.run_id), details)
    return Done(True, resolved)


def _locked(
    conn: Connection[Any], hand: Hand, run_id: bytes, *, cancelled_too: bool = False
) -> tuple[Run, Resolved]:
    """The run, and what followed from telling it what was put off."""
    told = tell_runs(conn, [run_id], most=EVERY_END).resolved
    run = lock_runs(conn, [run_id]).get(run_id)
    if run is None or run.tenant_id != hand.tenant_id:
        raise NotFoundError(f"there is no DAG run {text_of(run_id)}", field="run")
    if run.state == "cancelled" and not cancelled_too:
        raise ConflictError(f"run {text_of(run_id)} is cancelled: trigger the DAG for a new one", field="run")
    return run, told


def _task(conn: Connection[Any], run: Run, key: str) -> TaskStand:
    found = [task.task_id for task in tasks_of(conn, run).values() if task.key == key]
    if not found:
        raise NotFoundError(f"run {text_of(run.run_id)} has no task {key!r}", field="task")
    # Whoever puts DAG work off ends a task without the run's lock: how it stands is read under its own.
    given = {"execution_id": Uuid(run.execution_of(found[0])), "tenant_id": run.tenant_id}
    conn.execute(sql("lock_execution"), given)
    return tasks_of(conn, run)[found[0]]


def _refuse_done(task: TaskStand) -> None:
    if task.state in _DONE:
        raise ConflictError(f"task {task.key!r} {task.state} already: there is nothing to do", field="task")
