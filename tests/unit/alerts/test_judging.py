"""Hysteresis: what opens, what goes on, what is over, and what nobody can judge."""

from __future__ import annotations

from shardwheel.alert import Alert, Finding
from shardwheel.alerts.judging import Judge, Look
from shardwheel.alerts.rules import Figure, rules

RULES = rules()


def alert_of(finding: Finding, number: int = 1) -> Alert:
    return Alert(number.to_bytes(16, "big"), *finding, opened_ms=0, last_seen_ms=0)


class Table:
    """The table as the judge's verdicts make it."""

    def __init__(self) -> None:
        self.judge = Judge(RULES)
        self.open: list[Alert] = []

    def look(self, *figures: Figure, blind: frozenset[tuple[str, str | None]] = frozenset()) -> list[str]:
        """What is open afterwards."""
        verdict = self.judge.judge(Look(figures, blind), self.open)
        known = {(alert.rule, alert.subject) for alert in self.open}
        self.open = [alert for alert in self.open if alert.alert_id not in verdict.resolved]
        for finding in verdict.findings:
            if (finding.rule, finding.subject) not in known:
                self.open.append(alert_of(finding, len(self.open) + 1))
        return sorted(f"{alert.rule}:{alert.subject}" for alert in self.open)


def lag(value: float) -> Figure:
    return Figure("results_lag", value)


def test_it_opens_after_so_many_looks_in_a_row() -> None:
    table = Table()
    assert table.look(lag(6_000)) == []
    assert table.look(lag(4_000)) == []
    assert table.look(lag(6_000)) == []
    assert table.look(lag(6_000)) == ["results_lag:"]


def test_it_is_over_after_three_calm_looks_in_a_row() -> None:
    table = Table()
    for value in (6_000, 6_000, 4_000, 4_400, 4_900, 4_000, 4_000):
        table.look(lag(value))
    assert table.open
    assert table.look(lag(4_000)) == []


def test_a_figure_that_hovers_at_the_limit_neither_opens_nor_ends_it_again() -> None:
    table = Table()
    opened = [table.look(Figure("dead_letters", value)) for value in [101, 99, 101, 99, 95, 92, 101, 99, 91]]
    assert opened == [["dead_letters:"]] * 9


def test_subjects_are_judged_apart_and_one_that_is_gone_is_calm() -> None:
    table = Table()
    both = [Figure("shard_jobs", 600_000, "a"), Figure("shard_jobs", 600_000, "b")]
    assert table.look(*both) == ["shard_jobs:a", "shard_jobs:b"]
    for _ in range(3):
        table.look(both[0])
    assert table.look(both[0]) == ["shard_jobs:a"]


def test_what_a_look_is_blind_for_stays_as_it_is() -> None:
    table = Table()
    figures = [Figure("shard_jobs", 600_000, "a"), Figure("horizon_age", 100, "a")]
    table.look(*figures)
    for _ in range(5):
        opened = table.look(blind=frozenset({("shard_jobs", "a"), ("horizon_age", None)}))
    assert opened == ["horizon_age:a", "shard_jobs:a"]


def test_after_a_restart_an_open_alert_goes_on_and_is_not_opened_anew() -> None:
    table = Table()
    table.look(lag(6_000))
    table.look(lag(6_000))
    table.judge = Judge(RULES)
    assert table.look(lag(6_000)) == ["results_lag:"]
    (finding,) = table.judge.judge(Look([lag(20_000)]), table.open).findings
    assert finding.severity == "critical"


def test_an_alert_of_a_rule_that_is_no_more_ends() -> None:
    table = Table()
    table.open = [alert_of(RULES["dead_letters"].finding(Figure("dead_letters", 600)))._replace(rule="old")]
    opened = [table.look() for _ in range(3)]
    assert opened == [["old:"], ["old:"], []]
