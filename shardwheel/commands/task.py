"""`shardctl task …`: what holds for all jobs of one task type."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import typer

from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import ShardwheelError, UsageError

app = noun("Pause, resume and limit task types.")

COLUMNS = ["task", "paused", "max_running", "slots_taken", "rate", "breaker", "held"]
Task = Annotated[str, typer.Argument(help="The task type, such as email.send.")]


@verb(app, "list")
def list_(at: Terminal) -> None:
    """List task types: those that jobs name, and those that something was set for.

    Example:

        shardctl task list
    """
    at.rows(list(at.api.pages("/tasks")), COLUMNS)


@verb(app)
def pause(at: Terminal, task: Task) -> None:
    """Hold everything of a task type from now on, until it is resumed. Said twice, the same.

    Example:

        shardctl task pause email.send
    """
    at.show(at.api.post("/tasks/{}:pause", task))
    _tell_of_a_slip(at, task)


@verb(app)
def resume(at: Terminal, task: Task) -> None:
    """Let a paused task type go on: what was held runs, oldest first. Said twice, the same.

    Example:

        shardctl task resume email.send
    """
    at.show(at.api.post("/tasks/{}:resume", task))


@verb(app)
def limit(
    at: Terminal,
    task: Task,
    max_running: Annotated[int | None, typer.Option(help="How many may run at once (0: any number).")] = None,
    rate: Annotated[
        str | None, typer.Option(help="How many may start, such as 100/min (none: any number).")
    ] = None,
    breaker: Annotated[
        bool | None, typer.Option("--breaker/--no-breaker", help="Whether many failures hold it for a while.")
    ] = None,
) -> None:
    """Limit a task type, over all workers. What is beyond a limit is held, and runs later.

    Examples:

        shardctl task limit email.send --rate 100/min

        shardctl task limit report.build --max-running 4 --no-breaker
    """
    given: dict[str, Any] = {"max_running": max_running, "rate": rate, "breaker": breaker}
    body = {name: value for name, value in given.items() if value is not None}
    if not body:
        raise UsageError("nothing is to change; give --max-running, --rate or --breaker", field="rate")
    at.show(at.api.post("/tasks/{}:limit", task, body=body))
    _tell_of_a_slip(at, task)


def _tell_of_a_slip(at: Terminal, task: str) -> None:
    """A task type may be paused before there is a job of it. A slip of the pen looks the same, and leaves
    running what somebody believes to be paused."""
    with suppress(ShardwheelError):  # What was asked for is done.
        if not any(at.api.get(path, task=task, limit=1)["items"] for path in ("/jobs", "/dags")):
            remark = f"no job names {task!r} yet: it holds for those to come; see: shardctl task list"
            typer.echo(remark, err=True)
