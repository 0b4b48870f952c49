"""What receivers are told, in the two forms that they may want. Pure: a delivery in, a body out.

Both carry a key that is the alert's own, the same each time: what comes twice is known to be the same. One
that opens again later is another alert with another key, so that a belated "it is over" of the first ends
only that.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple

from shardwheel.alert import RESOLVED, Delivery, shown_alert
from shardwheel.ids import text_of
from shardwheel.output import shown_time

# PagerDuty cuts longer ones off.
SUMMARY_CHARACTERS = 1024


class Kind(StrEnum):
    WEBHOOK = "webhook"
    PAGERDUTY = "pagerduty"


class Receiver(NamedTuple):
    """Where to tell it, in which form. The routing key belongs to PagerDuty's."""

    kind: Kind
    url: str
    routing_key: str = ""

    @property
    def name(self) -> str:
        """Names it in the table, where no address may stand: there are some with a secret in them."""
        digest = blake2b(f"{self.url} {self.routing_key}".encode(), digest_size=6).hexdigest()
        return f"{self.kind}:{digest}"

    def body(self, delivery: Delivery, cluster: str) -> dict[str, Any]:
        if self.kind is Kind.PAGERDUTY:
            return pagerduty(delivery, cluster, self.routing_key)
        return webhook(delivery, cluster)


def webhook(delivery: Delivery, cluster: str) -> dict[str, Any]:
    """The generic form: the alert as `shardctl alerts list` shows it, and what happened to it."""
    return {
        "event": _action(delivery),
        "dedup_key": text_of(delivery.alert.alert_id),
        "cluster": cluster,
        **shown_alert(delivery.alert),
    }


def pagerduty(delivery: Delivery, cluster: str, routing_key: str) -> dict[str, Any]:
    """PagerDuty's Events API, version 2."""
    alert = delivery.alert
    return {
        "routing_key": routing_key,
        "event_action": _action(delivery),
        "dedup_key": text_of(alert.alert_id),
        "client": "Shardwheel",
        "payload": {
            "summary": f"{cluster}: {alert.sentence}"[:SUMMARY_CHARACTERS],
            "source": alert.subject or cluster,
            "severity": str(alert.severity),
            "timestamp": shown_time(alert.opened_ms),
            "component": "shardwheel",
            "group": cluster,
            "class": alert.rule,
            "custom_details": {"remedy": alert.remedy, "value": alert.value, **alert.facts},
        },
    }


def _action(delivery: Delivery) -> str:
    return "resolve" if delivery.tell == RESOLVED else "trigger"
