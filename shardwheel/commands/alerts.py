"""`shardctl alerts`: the watcher as a process of its own; `alerts list | silence`: what it has found."""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import Annotated

import trio
import typer

from shardwheel.alerts.doors import HttpDoors
from shardwheel.alerts.gather import Gather
from shardwheel.alerts.notices import Kind, Receiver
from shardwheel.alerts.roll import Roll
from shardwheel.alerts.rules import Limits, rules
from shardwheel.alerts.watch import Watch
from shardwheel.clock import DatabaseClock
from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.edges import doors_of, open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.commands.filters import ManyOption
from shardwheel.commands.references import referred
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import UsageError
from shardwheel.logs import set_up_logs
from shardwheel.service import Service, quieten_collector
from shardwheel.settings import Settings
from shardwheel.store.alert_store import PostgresAlertStore

app = typer.Typer(invoke_without_command=True)
COLUMNS = ["id", "rule", "state", "sentence", "opened_at", "severity", "subject", "silenced_until"]
# A broker that is away must not take a look's time: the next one is due.
KAFKA_LIMIT_S = 3.0


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
    receivers = receivers_of(settings)
    holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    set_up_logs(settings.log_level, settings.log_format, role="alerts")
    trio.run(_run, settings, holder, receivers)


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


def receivers_of(settings: Settings) -> list[Receiver]:
    """Whom the settings say to tell."""
    found = [Receiver(Kind.WEBHOOK, _checked(url, "alert_webhooks")) for url in settings.alert_webhooks]
    if settings.alert_pagerduty_key:
        key = referred(settings.alert_pagerduty_key, "alert_pagerduty_key")
        url = _checked(settings.alert_pagerduty_url, "alert_pagerduty_url")
        found.append(Receiver(Kind.PAGERDUTY, url, key))
    return found


def _checked(url: str, field: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{field}: {url!r:.80} is not an http or https URL; write it in full", field=field)
    return url


async def _run(settings: Settings, holder: str, receivers: list[Receiver]) -> None:
    tls = doors_of(settings)
    service = Service("alerts", host=settings.http_host, port=settings.http_port, tls=tls.server)
    await service.open()
    limits = Limits(settings.alert_oldest_due_s, settings.alert_horizon_age_s, settings.alert_floor_age_s)
    clock, roll = DatabaseClock(time.monotonic), Roll()
    async with (
        open_etcd(settings) as leases,
        open_pool(settings, "alerts", 2) as pool,
        HttpDoors(tls) as doors,
    ):
        gather = Gather(
            leases,
            open_kafka(settings, KAFKA_LIMIT_S),
            open_results_kafka(settings, KAFKA_LIMIT_S),
            doors,
            roll,
            clock.now_ms,
            doors=settings.alert_scrape,
        )
        Watch(
            holder,
            service,
            PostgresAlertStore(pool),
            gather,
            roll,
            clock,
            rules(limits),
            receivers,
            doors.post,
            cluster=settings.cluster,
            wall_ms=lambda: time.time() * 1000,
        ).add_to_service()
        quieten_collector()
        await service.run()
