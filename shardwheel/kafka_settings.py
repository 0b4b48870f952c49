"""How librdkafka is set up: what a deployment may choose, and what our promises rest on.

A deployment's own settings (TLS, SASL, anything librdkafka knows) come as a plain mapping and win over our
tuning; they never win over what a promise needs, such as `acks`. Nothing here connects to anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardwheel.logs import get_logger

# Recover soon after a broker came back, and notice within seconds that one has gone silent.
_TUNING: dict[str, Any] = {
    "reconnect.backoff.max.ms": 1_000,
    "socket.timeout.ms": 10_000,
    "socket.keepalive.enable": True,
    "enable.metrics.push": False,
}


def client_settings(bootstrap: str, settings: Mapping[str, str]) -> dict[str, Any]:
    return {**_TUNING, **settings, "bootstrap.servers": bootstrap}


def producer_settings(client: Mapping[str, Any], buffer_messages: int) -> dict[str, Any]:
    return {
        # Without it a lone task would be 2 ms sooner, but 8,000 jobs at once were about a tenth slower.
        "linger.ms": 1,
        **client,
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        # No time-out: the gapless guarantee does not cover messages that time out, so a frozen broker that
        # wakes in the wrong millisecond would leave a gap before an acknowledged message.
        "message.timeout.ms": 0,
        # A message counts here until its report is served, so ours is reached first. Bytes may be sooner.
        "queue.buffering.max.messages": 2 * buffer_messages + 10_000,
    }


def consumer_settings(client: Mapping[str, Any], group: str) -> dict[str, Any]:
    return {
        # A crashed member's topic partitions go to the others after this; they are orphans until then.
        "session.timeout.ms": 10_000,
        # A member learns of a rebalance by its heartbeat, twice until it is over.
        "heartbeat.interval.ms": 1_000,
        # A pause throws away what was fetched ahead: enough for several batches, not for seconds.
        "queued.min.messages": 10_000,
        **client,
        "group.id": group,
        "partition.assignment.strategy": "cooperative-sticky",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # An offset that is not there is an event that we want to see; then we go to the beginning ourselves.
        "auto.offset.reset": "error",
    }


def admin_settings(client: Mapping[str, Any]) -> dict[str, Any]:
    return {**client, "log_level": 0}


class DriverLog:
    """Takes librdkafka's own log lines (served by `poll`) to ours; what it says of settings is known."""

    def __init__(self, client: str) -> None:
        self._log = get_logger(edge="kafka", client=client)

    def log(self, level: int, _template: str, facility: str, name: str, text: str) -> None:
        if facility != "CONFWARN":
            self._log.log(level, text, facility=facility, driver=name)
