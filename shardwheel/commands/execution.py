"""`shardctl execution …`: what ran, runs and waits, straight on the store."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.connection import TENANT, at_the_terminal, connection
from shardwheel.commands.context import DataOption
from shardwheel.commands.filters import CursorOption, LimitOption, SinceOption, UntilOption, time_or_none
from shardwheel.errors import ConflictError
from shardwheel.ids import id_of
from shardwheel.output import Format, FormatOption, agreed, print_page, print_thing
from shardwheel.store import executions
from shardwheel.store.execution_requests import cancel_on_record

app = typer.Typer(help="Look at executions, and cancel them.", no_args_is_help=True)

COLUMNS = ["id", "task", "state", "reason", "origin", "scheduled_at", "attempt", "failures", "duration_ms"]
ExecutionId = Annotated[str, typer.Argument(help="The execution's id.")]


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Such as running, held or dead.")] = None,
    task: Annotated[str | None, typer.Option(help="Of this task type only.")] = None,
    job: Annotated[str | None, typer.Option(help="Of this job only.")] = None,
    tag: Annotated[str | None, typer.Option(help="Of jobs with this tag only.")] = None,
    reason: Annotated[str | None, typer.Option(help="Held, skipped or dead for this reason.")] = None,
    origin: Annotated[str | None, typer.Option(help="Such as schedule, trigger or redrive.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """List executions, the latest scheduled time first.

    Examples:

        shardctl execution list --state held

        shardctl execution list --job 0193… --since 2026-11-20T09:00:00Z -o json
    """
    wanted = executions.ExecutionFilter(
        state=state,
        reason=reason,
        origin=origin,
        task=task,
        tag=tag,
        job_id=None if job is None else id_of(job, field="job"),
        from_ms=time_or_none(since, "since"),
        until_ms=time_or_none(until, "until"),
    )
    with connection(data) as conn:
        page = executions.list_executions(conn, TENANT, wanted, limit=limit, cursor=cursor)
    print_page(page.items, page.next_cursor, COLUMNS, output)


@app.command()
def get(execution_id: ExecutionId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Show an execution, its attempts, and who was told of its end."""
    with connection(data) as conn:
        print_thing(executions.get_execution(conn, TENANT, id_of(execution_id)), output)


@app.command()
def cancel(
    execution_id: ExecutionId,
    job: Annotated[
        str | None, typer.Option(help="Its job: cancels a run ahead that has not been fired yet.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Cancel an execution: one that waits never runs; one that runs is asked to stop.

    Example:

        shardctl execution cancel 01a1… --yes
    """
    job_id = None if job is None else id_of(job, field="job")
    if not yes and not agreed(f"Cancel execution {execution_id}?"):
        raise ConflictError("nothing was cancelled: say --yes, or answer y at the terminal")
    with connection(data) as conn:
        outcome = cancel_on_record(conn, TENANT, id_of(execution_id), at_the_terminal(), job_id)
    print_thing({"id": execution_id, "outcome": outcome}, output)


@app.command()
def logs(
    execution_id: ExecutionId,
    attempt: Annotated[int | None, typer.Option(help="Of this attempt only.", min=1)] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Show what an execution's handler logged through `ctx.log`: the last 64 KiB are kept.

    Example:

        shardctl execution logs 01a1… --attempt 2
    """
    with connection(data) as conn:
        lines = executions.get_logs(conn, TENANT, id_of(execution_id), attempt)
    print_page(lines, None, ["attempt", "at", "level", "text"], output)
