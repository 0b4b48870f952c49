"""The watcher as a process of its own: which rooms and edges it is made of."""

from __future__ import annotations

import os
import secrets
import socket
import time

import trio

from shardwheel.alerts.doors import HttpDoors
from shardwheel.alerts.gather import Gather
from shardwheel.alerts.notices import Kind, Receiver
from shardwheel.alerts.roll import Roll
from shardwheel.alerts.rules import Limits, rules
from shardwheel.alerts.watch import Watch
from shardwheel.clock import DatabaseClock
from shardwheel.commands.edges import doors_of, open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.errors import UsageError
from shardwheel.logs import set_up_logs
from shardwheel.references import referred
from shardwheel.service import Service, quieten_collector
from shardwheel.settings import Settings
from shardwheel.store.alert_store import PostgresAlertStore
from shardwheel.tls import trust_of

# A broker that is away must not take a look's time: the next one is due.
KAFKA_LIMIT_S = 3.0


def serve(settings: Settings) -> None:
    """Run until SIGTERM."""
    receivers = receivers_of(settings)
    holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    set_up_logs(settings.log_level, settings.log_format, role="alerts")
    trio.run(_run, settings, holder, receivers)


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
        HttpDoors(tls, trust=trust_of(settings.https_ca)) as doors,
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
