"""From a look's figures to what opens, goes on and is over. Pure but for its two counts, which may be lost.

    limit 100, calm at 90, opens after 2 looks, over after 3

    value   120   130   95    120   80    85    70
            1st   open  open  open  calm  calm  over

After a restart it counts from 0: an alert opens or ends a few looks later, and none is told twice, since what
is open stands in the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shardwheel.alert import Alert, Finding
from shardwheel.alerts.rules import Figure, Rule

CALM_LOOKS = 3

Key = tuple[str, str]


class Look(NamedTuple):
    """What a look saw, and where it was blind: a rule and subject, or a rule with None for all its subjects.
    What it neither saw nor was blind for is calm: a shard that left has no latency."""

    figures: Sequence[Figure]
    blind: frozenset[tuple[str, str | None]] = frozenset()

    def is_blind_for(self, key: Key) -> bool:
        return key in self.blind or (key[0], None) in self.blind


class Verdict(NamedTuple):
    """What is wrong, and which alerts are over."""

    findings: list[Finding]
    resolved: list[bytes]


class Judge:
    def __init__(self, table: Mapping[str, Rule]) -> None:
        self._rules = table
        self._broken: Counter[Key] = Counter()
        self._calm: Counter[Key] = Counter()

    def judge(self, look: Look, open_alerts: Sequence[Alert]) -> Verdict:
        known = {(alert.rule, alert.subject): alert for alert in open_alerts}
        seen = {(figure.rule, figure.subject): figure for figure in look.figures}
        findings = [
            self._rules[key[0]].finding(seen[key]) for key in seen if self._counts(key, seen[key], known)
        ]
        resolved = [alert.alert_id for key, alert in known.items() if self._is_over(key, seen.get(key), look)]
        self._forget({*known, *seen})
        return Verdict(findings, resolved)

    def _counts(self, key: Key, figure: Figure, known: Mapping[Key, Alert]) -> bool:
        """Whether it is, or has been for long enough, an alert."""
        rule = self._rules[figure.rule]
        self._broken[key] = self._broken[key] + 1 if rule.is_broken(figure.value) else 0
        if key in known:
            return self._broken[key] > 0
        return self._broken[key] >= rule.looks

    def _is_over(self, key: Key, figure: Figure | None, look: Look) -> bool:
        if figure is None and look.is_blind_for(key):
            return False
        rule = self._rules.get(key[0])  # A rule of another version: nobody judges it any more.
        calm = figure is None or rule is None or rule.is_calm(figure.value)
        self._calm[key] = self._calm[key] + 1 if calm else 0
        return self._calm[key] >= CALM_LOOKS

    def _forget(self, present: set[Key]) -> None:
        for counts in (self._broken, self._calm):
            for key in counts.keys() - present:
                del counts[key]
