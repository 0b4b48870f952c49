"""The roll of shards: who was alive when, and who is missing. Pure: members and times in, figures out.

A shard that says it leaves is not missed. One that vanishes is, until as many are alive again as were then (a
shard that starts anew is somebody new, under another name), or until an hour has passed: then the cluster has
evidently been left smaller on purpose. What has to be known of a missing one stands in its alert's facts too,
so that a watcher that starts anew goes on missing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shardwheel.alert import Alert
from shardwheel.alerts.rules import Figure
from shardwheel.records import Member, MemberState

RULE = "shard_heartbeat"
MISSED_MS = 3_600_000


class Sight(NamedTuple):
    """When a shard was seen last, and how many there were, itself included."""

    seen_ms: int
    shards: int


class Roll:
    def __init__(self) -> None:
        self._present: dict[str, Sight] = {}
        self._leaving: set[str] = set()
        self._missing: dict[str, Sight] = {}

    def restore(self, open_alerts: Iterable[Alert]) -> None:
        """Miss whom the watcher before missed."""
        for alert in open_alerts:
            if alert.rule == RULE and alert.subject not in self._present and "seen_ms" in alert.facts:
                sight = Sight(int(alert.facts["seen_ms"]), int(alert.facts["shards"]))
                self._missing.setdefault(alert.subject, sight)

    def note(self, members: Mapping[str, Member], now_ms: float) -> None:
        """Who is alive now."""
        for shard_id, sight in self._present.items():
            if shard_id not in members and shard_id not in self._leaving:
                self._missing[shard_id] = sight
        self._present = {shard_id: Sight(int(now_ms), len(members)) for shard_id in members}
        self._leaving = {m.shard_id for m in members.values() if m.state == MemberState.LEAVING}
        self._missing = {
            shard_id: sight
            for shard_id, sight in self._missing.items()
            if shard_id not in members and len(members) < sight.shards and now_ms - sight.seen_ms < MISSED_MS
        }

    def figures(self, now_ms: float, told_s: Mapping[str, float]) -> list[Figure]:
        """For how long nothing was heard of each. `told_s`: what those alive say themselves, which is more
        than etcd knows where leases are long."""
        alive = [Figure(RULE, told_s.get(shard_id, 0.0), shard_id) for shard_id in self._present]
        return alive + [
            Figure(RULE, (now_ms - sight.seen_ms) / 1000, shard_id, sight._asdict())
            for shard_id, sight in self._missing.items()
        ]
