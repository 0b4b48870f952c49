"""`shardctl alerts`: the watcher as a process of its own; `alerts list | silence`: what it has found."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.filters import ManyOption
from shardwheel.commands.verbs import Terminal, verb

app = typer.Typer(add_completion=False, invoke_without_command=True)
COLUMNS = ["id", "state", "sentence", "opened_at", "rule", "severity", "subject", "silenced_until"]


@app.callback()
def alerts(
    context: typer.Context,
    http_port: Annotated[
        int | None, typer.Option(help="Port of /metrics and /healthz (0: any free one).")
    ] = None,
    data: DataOption = None,
) -> None:
    """Watch the cluster and tell people what is wrong, until SIGTERM. Of several one watches.

    Whom it tells: settings alert_webhooks and alert_pagerduty_key. What it looks at: docs/alerts.md.

    Examples:

        shardctl alerts

        SHARDWHEEL_ALERT_WEBHOOKS=http://10.0.0.7/hook shardctl alerts
    """
    if context.invoked_subcommand is not None:
        return
    settings = current_settings(data, http_port=http_port)
    require(settings, "postgres_dsn", "etcd_endpoints", "kafka_bootstrap")
    # Who only looks at alerts loads nothing of what watches.
    from shardwheel.commands.alerts_process import serve

    serve(settings)


@verb(app, "list")
def list_(
    at: Terminal,
    resolved: Annotated[bool, typer.Option("--resolved", help="Those that are over.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Open ones and those that are over.")] = False,
    limit: ManyOption = 100,
) -> None:
    """What is wrong now, the newest first, with what to do about it (`-o json` has all of it).

    Example:

        shardctl alerts list
    """
    state = "all" if every else "resolved" if resolved else "open"
    at.rows(at.api.some("/alerts", limit=limit, state=state), COLUMNS)


@verb(app)
def silence(
    at: Terminal,
    alert_id: Annotated[str, typer.Argument(help="The alert's id, as `shardctl alerts list` shows it.")],
    length: Annotated[
        str, typer.Option("--for", help="For how long, such as 30m, 1h, 2d; 0s ends it.")
    ] = "1h",
) -> None:
    """Tell nobody of an alert for a while, nor of the next one of the same kind. That it is over is told.

    Example:

        shardctl alerts silence 0d9c8a52-5a1f-4c6e-9a59-2f6f0a5c2f10 --for 2h
    """
    at.show(at.api.post("/alerts/{}:silence", alert_id, body={"for": length}))
