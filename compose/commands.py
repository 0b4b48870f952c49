"""`shardctl dev …`: start the embedded stack in the foreground; look at it and stop it from elsewhere."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from shardwheel.compose.follow import follow
from shardwheel.compose.stack import Stack, default_folder, last_stack, require_stack
from shardwheel.errors import NotFoundError, ShardwheelError
from shardwheel.output import Format, FormatOption, print_rows, print_thing
from shardwheel.settings import Settings, load_settings, settings_file

app = typer.Typer(add_completion=False)

# Services have 35 s and servers 30 s to end before they are killed; the rest is for a slow machine.
STOP_LIMIT_S = 120.0

DataOption = Annotated[Path | None, typer.Option("--data", help="The stack's data folder.", file_okay=False)]


@app.callback(invoke_without_command=True)
def dev(
    context: typer.Context,
    shards: Annotated[int, typer.Option(min=0, help="How many shards.")] = 1,
    workers: Annotated[int, typer.Option(min=0, help="How many workers of each pool, given handlers.")] = 1,
    handlers: Annotated[str | None, typer.Option(help="The module with your handlers.")] = None,
    data: DataOption = None,
    http: Annotated[int | None, typer.Option(min=1, max=65535, help="The API's port.")] = None,
) -> None:
    """Run PostgreSQL, etcd, Kafka and all services on this machine until Ctrl-C. The data survives.

    What SHARDWHEEL_POSTGRES_DSN, SHARDWHEEL_ETCD_ENDPOINTS, SHARDWHEEL_KAFKA_BOOTSTRAP or
    SHARDWHEEL_RESULTS_BOOTSTRAP point elsewhere is used from there.

    Examples:

        shardctl dev --shards 3 --handlers myapp.jobs

        shardctl dev --data /tmp/second

        shardctl dev status -o json
    """
    # What stands before the noun holds here too: else a `stop` would end another stack than was meant.
    data = data or context.find_root().params.get("data")
    context.obj = data
    if context.invoked_subcommand is not None:
        return
    settings = _settings(data=_text(data), handlers=handlers, http_port=http)
    folder = Path(settings.data) if settings.data else default_folder()
    # Who only looks at a stack, or stops it, loads nothing of what makes one.
    from shardwheel.compose.front import serve
    from shardwheel.compose.services import Wish
    from shardwheel.handler import require_handlers

    if settings.handlers and workers:
        require_handlers(settings.handlers)

    serve(Wish(folder=folder.absolute(), settings=settings, shards=shards, workers=workers))


@app.command()
def status(context: typer.Context, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """List every process of the running stack.

    Example: shardctl dev status -o json
    """
    stack = require_stack(_folder(context, data))
    rows = msgspec.to_builtins(stack.processes)
    if output is Format.table:
        typer.echo(f"The stack on {stack.data}:")
        rows = [{**row, "log": row["log"].removeprefix(f"{stack.data}/")} for row in rows]
    print_rows(rows, ["id", "pid", "state", "restarts", "address", "log"], output)


@app.command()
def stop(context: typer.Context, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Stop the running stack: services first, then servers. Returns when all of it is gone.

    Example: shardctl dev stop --data /tmp/second
    """
    stack = require_stack(_folder(context, data))
    if not _end_supervisor(stack):
        raise ShardwheelError(
            f"the stack on {stack.data} did not stop within {STOP_LIMIT_S:g} s; it was killed"
        )
    if output is Format.table:
        typer.echo(f"The stack on {stack.data} is stopped.")
    else:
        print_thing({"data": str(stack.data), "state": "stopped"}, output)


def _end_supervisor(stack: Stack) -> bool:
    """False when it had to be killed; its children then follow. A descriptor: a pid may change hands."""
    try:
        supervisor = os.pidfd_open(stack.pid)
    except ProcessLookupError:
        return True
    try:
        if not stack.is_running:
            return True
        signal.pidfd_send_signal(supervisor, signal.SIGTERM)
        ended, _, _ = select.select([supervisor], [], [], STOP_LIMIT_S)
        if not ended:
            signal.pidfd_send_signal(supervisor, signal.SIGKILL)
        return bool(ended)
    finally:
        os.close(supervisor)


@app.command()
def restart(
    context: typer.Context,
    role: Annotated[str, typer.Argument(help="A service's role (worker) or one process's id (shard-2).")],
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Let services of the running stack begin anew: workers then have your handlers as they are now.

    A worker finishes what it holds first; a shard hands over.

    Example: shardctl dev restart worker
    """

    from shardwheel.compose.restart import restart_services

    folder = _folder(context, data)
    back = restart_services(lambda: require_stack(folder), role, STOP_LIMIT_S)
    if output is Format.table:
        typer.echo(f"Started again: {', '.join(back)}.")
    else:
        print_thing({"restarted": back}, output)


@app.command()
def logs(
    context: typer.Context,
    role: Annotated[str, typer.Argument(help="A role (shard) or one process's id (shard-2).")],
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many lines of each log.")] = 100,
    follow_on: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the stack ends.")] = False,
    data: DataOption = None,
) -> None:
    """Print the end of the logs of a role; also after the stack has ended.

    Example: shardctl dev logs kafka -f
    """
    folder = _folder(context, data)
    stack = last_stack(folder) or require_stack(folder)
    paths = {row.id: Path(row.log) for row in stack.processes if role in (row.role, row.id)}
    if not paths:
        known = ", ".join(dict.fromkeys(row.role for row in stack.processes))
        raise NotFoundError(f"this stack has no {role!r}; it has: {known}")
    follow(paths, lines, until=lambda: not (follow_on and stack.is_running))


def _folder(context: typer.Context, data: Path | None) -> Path | None:
    """Where the stack is: `--data`, before the verb or after it, then the settings, then the default."""
    chosen = _settings(data=_text(data or context.obj)).data
    return Path(chosen).absolute() if chosen else None


def _settings(**flags: Any) -> Settings:
    return load_settings(flags=flags, environ=os.environ, file=settings_file())


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
