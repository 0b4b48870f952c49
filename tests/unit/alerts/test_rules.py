"""The table of rules: when each speaks, what it says, and that the runbook says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardwheel.alert import Severity
from shardwheel.alerts.rules import Figure, Limits, Rule, rules

RULES = rules()
PAGE = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text()
WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL


@pytest.mark.parametrize(
    ("rule", "well", "warning", "critical", "words"),
    [
        ("dead_letters", 100, 101, 500, "500 dead letters"),
        ("shard_heartbeat", 5, 5.1, None, "Shard a has not been heard of for 5 s"),
        ("shard_jobs", 500_000, 500_001, 1_000_000, "Shard a holds 1,000,000 entries"),
        ("pool_lag_short", 5_000, 5_001, 50_000, "50,000 executions of pool short"),
        ("pool_lag_medium", 2_000, 2_001, 20_000, "20,000 executions of pool medium"),
        ("pool_lag_long", 1_000, 1_001, 10_000, "10,000 executions of pool long"),
        ("results_lag", 5_000, 5_001, 10_000, "10,000 results"),
        ("oldest_due", 30, 31, 300, "due 300 s ago is not yet fired: partition 7, shard b"),
        ("tick_latency", 0.1, 0.101, 1, "shard a's ticks one in a hundred takes 1.000 s"),
        ("dag_completion", 0.95, 0.949, 0.5, "Only 50.0% of the last hour's DAG runs"),
        ("duplicates", 0.01, 0.011, 0.1, "10.0% of what was fired"),
        ("horizon_age", 60, 61, 600, "Shard a's horizon has been held back for 600 s"),
        ("floor_age", 300, 301, 3_000, "claim floor of partition 7 is 3,000 s old"),
        ("shard_door", 30, 31, None, "Shard a is alive, but its door has not answered the watcher for 31 s"),
        ("unreachable", 30, None, 31, "a has been out of the watcher's reach for 31 s"),
    ],
)
def test_a_rule_speaks_beyond_its_limit(
    rule: str, well: float, warning: float | None, critical: float | None, words: str
) -> None:
    this = RULES[rule]
    assert not this.is_broken(well)
    said = ""
    for value, severity in ((warning, WARNING), (critical, CRITICAL)):
        if value is not None:
            assert this.is_broken(value) and not this.is_calm(value)
            found = this.finding(Figure(rule, value, "a", {"partition": 7, "shard": "b"}))
            assert found.severity == severity
            said = found.sentence
            assert "`" in found.remedy and "{" not in found.sentence + found.remedy
    assert words in said


def test_every_rule_is_in_the_table_above() -> None:
    marks = test_a_rule_speaks_beyond_its_limit.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} == set(RULES)


def test_calm_is_well_inside_the_limit() -> None:
    assert not RULES["dead_letters"].is_calm(95) and RULES["dead_letters"].is_calm(90)
    assert not RULES["dag_completion"].is_calm(0.951) and RULES["dag_completion"].is_calm(0.956)


def test_limits_come_from_the_settings() -> None:
    assert rules(Limits(oldest_due_s=5))["oldest_due"].is_broken(6)
    assert rules(Limits(horizon_age_s=5))["horizon_age"].is_broken(6)
    assert rules(Limits(floor_age_s=5))["floor_age"].is_broken(6)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_the_runbook_has_the_rule_with_its_limits_and_its_remedy(rule: Rule) -> None:
    row = f"| `{rule.name}` | {_shown(rule.limit)} | {_shown(rule.critical)} | {rule.looks} |"
    assert row in PAGE
    section = PAGE.partition(f"\n## {rule.name}\n")[2].partition("\n## ")[0]
    assert f"**Do**: {rule.remedy}" in section


def test_the_runbook_has_no_rule_that_is_gone() -> None:
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == list(RULES)


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
