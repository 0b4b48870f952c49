"""`shardctl shard`: a scheduler shard as a process of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.context import DataOption, current_settings, require

app = typer.Typer(add_completion=False, invoke_without_command=True)


@app.callback()
def shard(
    context: typer.Context,
    http_port: Annotated[
        int | None, typer.Option(help="Port of /metrics and /healthz (0: any free one).")
    ] = None,
    data: DataOption = None,
) -> None:
    """Run a scheduler shard until SIGTERM, which hands its partitions over.

    Example:

        shardctl shard --data ./dev
    """
    if context.invoked_subcommand is not None:
        return
    settings = current_settings(data, http_port=http_port)
    require(settings, "postgres_dsn", "etcd_endpoints", "kafka_bootstrap")
    # Who only looks at shards loads nothing of what makes one.
    from shardwheel.commands.shard_process import serve

    serve(settings)
