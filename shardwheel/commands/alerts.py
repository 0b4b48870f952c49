"""`shardctl alerts`: the watcher as a process of its own; `alerts list | silence`: what it has found."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Annotated

import trio
import typer

from shardwheel.alert import shown_alert
from shardwheel.alerts.doors import HttpDoors
from shardwheel.alerts.gather import Gather
from shardwheel.alerts.notices import Kind, Receiver
from shardwheel.alerts.roll import Roll
from shardwheel.alerts.rules import Limits, rules
from shardwheel.alerts.watch import Watch
from shardwheel.clock import DatabaseClock
from shardwheel.commands.connection import connection
from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.edges import doors_of, open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.errors import UsageError
from shardwheel.ids import id_of
from shardwheel.logs import set_up_logs
from shardwheel.output import Format, FormatOption, print_rows, print_thing
from shardwheel.service import Service, quieten_collector
from shardwheel.settings import Settings
from shardwheel.store.alert_store import PostgresAlertStore
from shardwheel.store.alerts import list_alerts, silence_alert
from shardwheel.times import parse_duration

app = typer.Typer(invoke_without_command=True)
COLUMNS = ["id", "state", "severity", "rule", "subject", "opened_at", "silenced_until", "sentence"]
# A broker that is away must not take a look's time: the next one is due.
KAFKA_LIMIT_S = 3.0
MOST_SILENCE_MS = 31 * 86_400_000


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


@app.command("list")
def list_(
    resolved: Annotated[bool, typer.Option("--resolved", help="Those that are over.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Open ones and those that are over.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 100,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """What is wrong now, the newest first, with what to do about it (`-o json` has all of it).

    Example:

        shardctl alerts list
    """
    with connection(data) as conn:
        found = list_alerts(conn, is_open=None if every else not resolved, limit=limit)
        print_rows([shown_alert(alert) for alert in found], COLUMNS, output)


@app.command()
def silence(
    alert_id: Annotated[str, typer.Argument(help="The alert's id, as `shardctl alerts list` shows it.")],
    length: Annotated[
        str, typer.Option("--for", help="For how long, such as 30m, 1h, 2d; 0s ends it.")
    ] = "1h",
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Tell nobody of an alert for a while, nor of the next one of the same kind. That it is over is told.

    Example:

        shardctl alerts silence 0d9c8a52-5a1f-4c6e-9a59-2f6f0a5c2f10 --for 2h
    """
    length_ms = parse_duration(length, "for", most_ms=MOST_SILENCE_MS)
    with connection(data) as conn:
        print_thing(shown_alert(silence_alert(conn, id_of(alert_id), length_ms, getpass.getuser())), output)


def receivers_of(settings: Settings) -> list[Receiver]:
    """Whom the settings say to tell."""
    found = [Receiver(Kind.WEBHOOK, _checked(url, "alert_webhooks")) for url in settings.alert_webhooks]
    if settings.alert_pagerduty_key:
        key = referred(settings.alert_pagerduty_key, "alert_pagerduty_key")
        url = _checked(settings.alert_pagerduty_url, "alert_pagerduty_url")
        found.append(Receiver(Kind.PAGERDUTY, url, key))
    return found


def referred(value: str, field: str) -> str:
    """A secret that a setting holds, or names: `env:NAME`, `file:PATH`."""
    kind, _, name = value.partition(":")
    if kind == "env":
        if not os.environ.get(name):
            raise UsageError(f"{field}: the environment has no {name}; set it, or name another", field=field)
        return os.environ[name]
    if kind == "file":
        try:
            return Path(name).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UsageError(
                f"{field}: {name} can't be read ({error.strerror}); mend that", field=field
            ) from error
    return value


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
