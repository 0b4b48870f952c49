"""Task types over HTTP: what holds for all jobs of one task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardwheel.api import bodies, examples, views
from shardwheel.api.jobs import PAGE_WORDS
from shardwheel.api.route import Ask, Reply, Route, Word
from shardwheel.limits import TaskType
from shardwheel.showing import task_row
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.link import Connection
from shardwheel.store.page import Page, page_of
from shardwheel.store.task_types import limit_task, list_tasks, pause_task, resume_task


async def list_(ask: Ask) -> Reply:
    limit, cursor, text = ask.query.limit(), ask.query.text("cursor", ""), ask.query.text("q", "")
    page = await ask.desk.much(ask.tenant, _page, limit, cursor, text.lower())
    return Reply(page._asdict())


async def pause(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    return await _change(
        ask, "task.pause", lambda conn, tenant, task: pause_task(conn, tenant, task, ask.actor.name)
    )


async def resume(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    return await _change(ask, "task.resume", resume_task)


async def limit(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.LimitBody)

    def change(conn: Connection, tenant: str, task: str) -> TaskType:
        return limit_task(
            conn, tenant, task, max_running=wish.max_running, rate=wish.rate, breaker=wish.breaker
        )

    return await _change(ask, "task.limit", change)


async def _change(ask: Ask, action: str, change: Callable[[Connection, str, str], TaskType]) -> Reply:
    ask.allowed(ask.path["name"])
    task = await ask.desk.pool.run(ask.tenant, _changed, ask.path["name"], ask.actor, action, change)
    return Reply(task_row(task))


def _page(conn: Connection, tenant_id: str, limit: int, cursor: str, text: str) -> Page:
    """The order is Python's, not the database's: so a cursor means the same everywhere."""
    known = sorted(list_tasks(conn, tenant_id), key=_name)
    wanted = [task for task in known if task.task > cursor and text in task.task.lower()]
    return page_of(wanted, limit, task_row, _name)


def _name(task: TaskType) -> str:
    return task.task


def _changed(
    conn: Connection,
    tenant_id: str,
    task: str,
    actor: Actor,
    action: str,
    change: Callable[[Connection, str, str], TaskType],
) -> TaskType:
    before = next(iter(list_tasks(conn, tenant_id, task=task)), None)
    after = change(conn, tenant_id, task)
    details: dict[str, Any] = {"before": _set_of(before), "after": _set_of(after)}
    write_audit(conn, tenant_id, actor, action, "task", task, details)
    return after


def _set_of(task: TaskType | None) -> dict[str, Any]:
    """What people set for it; of one that nobody named yet, nothing."""
    row = {"paused": False} if task is None else task_row(task)
    return {name: row[name] for name in ("paused", "max_running", "rate", "breaker") if name in row}


ROUTES = (
    Route(
        "GET",
        "/tasks",
        list_,
        "List task types",
        "Those that jobs name, and those that something was set for.",
        views.TaskPage,
        examples.page(examples.TASK),
        query=(
            PAGE_WORDS[0],
            Word("cursor", "`next_cursor` of the page before.", "email.send"),
            Word("q", "A part of its name, in any case.", "mail"),
        ),
    ),
    Route(
        "POST",
        "/tasks/{name}:pause",
        pause,
        "Hold everything of a task type",
        "Once it is answered nothing of it starts: it is held until the resume. Said twice, the same.",
        views.TaskView,
        examples.TASK | {"paused": True},
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/tasks/{name}:resume",
        resume,
        "Let a task type go on",
        "What was held runs, oldest first.",
        views.TaskView,
        examples.TASK,
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/tasks/{name}:limit",
        limit,
        "Limit a task type, over all workers",
        "What is beyond a limit is held, and runs later. What is left out stays as it is; `max_running` 0 "
        'and `rate` "none" take a limit away.',
        views.TaskView,
        examples.TASK,
        body=bodies.LimitBody,
        body_example={"max_running": 4, "rate": "100/min"},
    ),
)
