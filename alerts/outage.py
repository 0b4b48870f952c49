"""PostgreSQL out of reach: the one alert that can't be put on record. Pure but for what it has told.

silent since   0 s   …   30 s: told once   …   reached: told that it is over
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from shardwheel.alert import RESOLVED, Alert, Delivery
from shardwheel.alerts.rules import Figure, Rule


class Outage:
    """`wall_ms`: the wall clock, for people: the database's own is what is away."""

    def __init__(self, rule: Rule, subject: str, cluster: str, wall_ms: Callable[[], float]) -> None:
        self._rule = rule
        self._subject = subject
        # The same at each outage and after a restart: what is told twice is known to be the same.
        self._alert_id = uuid.uuid5(uuid.NAMESPACE_URL, f"shardwheel:{cluster}:{rule.name}:{subject}").bytes
        self._wall_ms = wall_ms
        self._reached_s: float | None = None
        self._told: Alert | None = None

    def silent(self, now_s: float) -> Delivery | None:
        """It does not answer: what is to be told now, if anything."""
        if self._reached_s is None:
            self._reached_s = now_s
        silent_s = now_s - self._reached_s
        if self._told is not None or not self._rule.is_broken(silent_s):
            return None
        found = self._rule.finding(Figure(self._rule.name, silent_s, self._subject))
        opened_ms = int(self._wall_ms() - silent_s * 1000)
        self._told = Alert(self._alert_id, *found, opened_ms=opened_ms, last_seen_ms=int(self._wall_ms()))
        return Delivery("", found.severity, self._told)

    def reached(self, now_s: float) -> Delivery | None:
        """It answers: that it is over, if somebody was told."""
        self._reached_s = now_s
        told, self._told = self._told, None
        return None if told is None else Delivery("", RESOLVED, told)
