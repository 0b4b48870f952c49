"""Task types: pause and resume all jobs of one task, limit how many run at once and how many start.

A task without a row is not paused and has no limits. A change is seen by the next claim; what the old
limit held is released by the owners' sweeps. A smaller limit lets what runs run on: its slots go when free.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.errors import NotFoundError
from shardwheel.limits import TaskType, burst_of, check_max_running, parse_rate
from shardwheel.store.sql import sql
from shardwheel.times import refuse

_LONGEST_NAME = 200


def pause_task(conn: Connection[Any], tenant_id: str, task: str, by: str) -> TaskType:
    """From the acknowledgement on nothing of it is claimed: it is held. Said twice, the same."""
    _set(conn, tenant_id, task, {"paused": True, "paused_by": by})
    return get_task(conn, tenant_id, task)


def resume_task(conn: Connection[Any], tenant_id: str, task: str) -> TaskType:
    _set(conn, tenant_id, task, {"paused": False})
    return get_task(conn, tenant_id, task)


def limit_task(
    conn: Connection[Any],
    tenant_id: str,
    task: str,
    *,
    max_running: int | None = None,
    rate: str | None = None,
    breaker: bool | None = None,
) -> TaskType:
    """Set the limits that are given, and leave the others. 0 running, or the rate `none`, takes one away."""
    change: dict[str, Any] = {"breaker": breaker}
    if max_running is not None:
        change |= {
            "set_running": True,
            "max_running": check_max_running(max_running) if max_running else None,
        }
    if rate is not None:
        per_s = None if rate == "none" else parse_rate(rate)
        change |= {"set_rate": True, "rate_per_s": per_s, "burst": None if per_s is None else burst_of(per_s)}
    _set(conn, tenant_id, task, change)
    return get_task(conn, tenant_id, task)


def name_task(conn: Connection[Any], tenant_id: str, task: str) -> None:
    """Give the task a row, should it have none."""
    _set(conn, tenant_id, task, {})


def get_task(conn: Connection[Any], tenant_id: str, task: str) -> TaskType:
    for found in list_tasks(conn, tenant_id, task=task):
        return found
    raise NotFoundError(
        f"there is no task {task!r}: no job names it and nothing was set for it", field="task"
    )


def list_tasks(conn: Connection[Any], tenant_id: str, *, task: str | None = None) -> list[TaskType]:
    """All task types that jobs name or that something was set for, in order of their names."""
    rows = conn.execute(sql("list_tasks"), {"tenant_id": tenant_id, "task": task})
    return [TaskType._make(row) for row in rows]


def _set(conn: Connection[Any], tenant_id: str, task: str, change: dict[str, Any]) -> None:
    if not 1 <= len(task) <= _LONGEST_NAME or "\0" in task:
        refuse("task", f"{task!r} is not a task's name", f"give 1 to {_LONGEST_NAME} characters")
    values: dict[str, Any] = {
        "paused": None,
        "paused_by": None,
        "breaker": None,
        "set_running": False,
        "max_running": None,
        "set_rate": False,
        "rate_per_s": None,
        "burst": None,
    }
    named = {"tenant_id": tenant_id, "task": task}
    if conn.execute(sql("has_task_type"), named).fetchone() is None:
        conn.execute(sql("lock_task_types"))
    conn.execute(sql("set_task_type"), values | change | named)
    conn.execute(sql("fit_task_slots"), named)
