"""What an alert is: something wrong with the cluster, from its opening to its end. Pure values.

They live here and not in the room that makes them, since the API and the command line show them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from shardwheel.ids import text_of
from shardwheel.output import shown_time

RESOLVED = "resolved"
RUNBOOK = "docs/alerts.md"


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"


class Finding(NamedTuple):
    """What a look found wrong. Rule and subject name the alert that it opens or goes on with."""

    rule: str
    subject: str
    severity: Severity
    value: float
    sentence: str
    remedy: str
    facts: Mapping[str, Any] = {}


class Alert(NamedTuple):
    """An alert as its row has it; times in milliseconds."""

    alert_id: bytes
    rule: str
    subject: str
    severity: str
    value: float
    sentence: str
    remedy: str
    facts: Mapping[str, Any]
    opened_ms: int
    last_seen_ms: int
    notified_ms: int | None = None
    resolved_ms: int | None = None
    silenced_until_ms: int | None = None


class Delivery(NamedTuple):
    """What a receiver has still to be told of an alert: its severity, or that it is resolved."""

    receiver: str
    tell: str
    alert: Alert


class TableFigures(NamedTuple):
    """What the tables say of the cluster's health. None: nothing was fired yet."""

    now_ms: int
    dead_letters: int
    fired_through_ms: int | None
    fired_least: int | None
    floor_ms: int | None
    floor_least: int | None
    dag_runs_succeeded: int
    dag_runs_ended: int
    worker_doors: Sequence[str] = ()


def shown_alert(alert: Alert) -> dict[str, Any]:
    """An alert as people and scripts see it."""
    return {
        "id": text_of(alert.alert_id),
        "rule": alert.rule,
        "subject": alert.subject,
        "state": "open" if alert.resolved_ms is None else RESOLVED,
        "severity": str(alert.severity),
        "value": alert.value,
        "sentence": alert.sentence,
        "remedy": alert.remedy,
        "runbook": f"{RUNBOOK}#{alert.rule}",
        "facts": dict(alert.facts),
        "opened_at": shown_time(alert.opened_ms),
        "last_seen_at": shown_time(alert.last_seen_ms),
        "notified_at": _shown(alert.notified_ms),
        "resolved_at": _shown(alert.resolved_ms),
        "silenced_until": _shown(alert.silenced_until_ms),
    }


def _shown(at_ms: int | None) -> str | None:
    return None if at_ms is None else shown_time(at_ms)
