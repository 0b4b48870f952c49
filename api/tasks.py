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
from shardwheel.store.task_types import list_tasks, pause_task, resume_task


async def list_(ask: Ask) -> Reply:
    limit, cursor, text = ask.query.limit(), ask.query.text("cursor", ""), ask.query.text("q", "")
    page = await ask.desk.pool.run(ask.tenant, _page, limit, cursor, text.lower())
    return Reply(page._asdict())


async def pause(ask: Ask) -> Reply:
    return await _change(
        ask, "task.pause", lambda conn, tenant, task: pause_task(conn, tenant, task, ask.actor.name)
    )


async def resume(ask: Ask) -> Reply:
    return await _change(ask, "task.resume", resume_task)


async def _change(ask: Ask, action: str, change: Callable[[Connection, str, str], TaskType]) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
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
    before = [one.paused for one in list_tasks(conn, tenant_id, task=task)]
    after = change(conn, tenant_id, task)
    details: dict[str, Any] = {"before": {"paused": any(before)}, "after": {"paused": after.paused}}
    write_audit(conn, tenant_id, actor, action, "task", task, details)
    return after


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
)
