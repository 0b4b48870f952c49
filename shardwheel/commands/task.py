"""`shardctl task …`: what holds for all jobs of one task type, straight on the store."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from shardwheel.commands.connection import TENANT, connection
from shardwheel.commands.context import DataOption
from shardwheel.output import Format, FormatOption, print_rows, print_thing
from shardwheel.showing import task_row
from shardwheel.store import task_types

app = typer.Typer(help="Pause, resume and limit task types.", no_args_is_help=True)

COLUMNS = ["task", "paused", "max_running", "slots_taken", "rate", "breaker", "held"]
Task = Annotated[str, typer.Argument(help="The task type, such as email.send.")]


@app.command("list")
def list_(data: DataOption = None, output: FormatOption = Format.table) -> None:
    """List task types: those that jobs name, and those that something was set for."""
    with connection(data) as conn:
        print_rows([task_row(one) for one in task_types.list_tasks(conn, TENANT)], COLUMNS, output)


@app.command()
def pause(task: Task, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Hold everything of a task type from now on, until it is resumed. Said twice, the same.

    Example:

        shardctl task pause email.send
    """
    with connection(data) as conn:
        paused = task_types.pause_task(conn, TENANT, task, getpass.getuser())
    print_thing(task_row(paused), output)


@app.command()
def resume(task: Task, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Let a paused task type go on: what was held runs, oldest first."""
    with connection(data) as conn:
        resumed = task_types.resume_task(conn, TENANT, task)
    print_thing(task_row(resumed), output)


@app.command()
def limit(
    task: Task,
    max_running: Annotated[int | None, typer.Option(help="How many may run at once (0: any number).")] = None,
    rate: Annotated[
        str | None, typer.Option(help="How many may start, such as 100/min (none: any number).")
    ] = None,
    breaker: Annotated[
        bool | None, typer.Option("--breaker/--no-breaker", help="Whether many failures hold it for a while.")
    ] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Limit a task type, over all workers. What is beyond a limit is held, and runs later.

    Examples:

        shardctl task limit email.send --rate 100/min

        shardctl task limit report.build --max-running 4 --no-breaker
    """
    with connection(data) as conn:
        limited = task_types.limit_task(
            conn, TENANT, task, max_running=max_running, rate=rate, breaker=breaker
        )
    print_thing(task_row(limited), output)
