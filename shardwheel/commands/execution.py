"""`shardctl execution …`: what ran, runs and waits."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.attempts import show_with_attempts
from shardwheel.commands.calling import Api
from shardwheel.commands.filters import CursorOption, LimitOption, SinceOption, UntilOption, checked_time
from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import NotFoundError

app = noun("Look at executions, and cancel them.")

COLUMNS = ["id", "state", "task", "scheduled_at", "reason", "attempt", "duration_ms", "origin", "failures"]
ExecutionId = Annotated[str, typer.Argument(help="The execution's id.")]


@verb(app, "list")
def list_(
    at: Terminal,
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
) -> None:
    """List executions, the latest scheduled time first.

    Examples:

        shardctl execution list --state held

        shardctl execution list --job 0193… --since 2026-11-20T09:00:00Z -o json
    """
    given = {"state": state, "reason": reason, "origin": origin, "task": task, "tag": tag, "job_id": job}
    given |= {"from": checked_time(since, "since"), "to": checked_time(until, "until"), "cursor": cursor}
    at.page(at.api.get("/executions", limit=limit, **given), COLUMNS)


@verb(app)
def get(at: Terminal, execution_id: ExecutionId) -> None:
    """Show an execution, its attempts, and who was told of its end.

    Example:

        shardctl execution get 01a1… -o json
    """
    show_with_attempts(at, at.api.get("/executions/{}", execution_id))


@verb(app)
def cancel(
    at: Terminal,
    execution_id: ExecutionId,
    job: Annotated[
        str | None, typer.Option(help="Its job: cancels a run ahead that has not been fired yet.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Cancel an execution: one that waits never runs; one that runs is asked to stop. Said twice, the same.

    Example:

        shardctl execution cancel 01a1… --yes
    """
    if not yes:
        at.agree(f"Cancel execution {execution_id} ({_told(at.api, execution_id)})?", "cancelled", yes)
    body = {} if job is None else {"job_id": job}
    found = at.api.post("/executions/{}:cancel", execution_id, body=body)
    at.show({"id": execution_id, "outcome": found["outcome"]})


def _told(api: Api, execution_id: str) -> str:
    """What would be cancelled. A run ahead has no row yet."""
    try:
        found = api.get("/executions/{}", execution_id)
    except NotFoundError:
        return "not fired yet"
    return f"{found['task']}, {found['state']}, of {found['scheduled_at']}"


@verb(app)
def logs(
    at: Terminal,
    execution_id: ExecutionId,
    attempt: Annotated[int | None, typer.Option(help="Of this attempt only.", min=1)] = None,
) -> None:
    """Show what an execution's handler logged through `ctx.log`: the last 64 KiB are kept.

    Example:

        shardctl execution logs 01a1… --attempt 2
    """
    page = at.api.get("/executions/{}/logs", execution_id, attempt=attempt)
    at.page(page, ["attempt", "at", "level", "text"])
