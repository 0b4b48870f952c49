"""What is wrong when, how bad it is, and what to do: a table, a rule each. Pure: figures in, findings out.

docs/alerts.md is the page for people: a test keeps its headings, limits and remedies in step with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shardwheel.alert import Finding, Severity

# An alert is over only well inside its limit, or a figure that hovers there would open and resolve it for
# ever.
CALM_SHARE = 0.9


class Figure(NamedTuple):
    """What a look found out: a value for a rule, of a subject where there are several."""

    rule: str
    value: float
    subject: str = ""
    facts: Mapping[str, Any] = {}


class Limits(NamedTuple):
    """The limits that the settings say."""

    oldest_due_s: float = 30.0
    horizon_age_s: float = 60.0
    floor_age_s: float = 300.0


class Rule(NamedTuple):
    """Beyond `limit` it is an alert, from `critical` on a critical one (None: never). `looks`: that many in a
    row before it opens. `below`: it is too little that is wrong."""

    name: str
    limit: float
    critical: float | None
    sentence: str
    remedy: str
    looks: int = 1
    below: bool = False

    def is_broken(self, value: float) -> bool:
        return value < self.limit if self.below else value > self.limit

    def is_calm(self, value: float) -> bool:
        if self.below:
            return value >= 1 - CALM_SHARE * (1 - self.limit)
        return value <= CALM_SHARE * self.limit

    def finding(self, figure: Figure) -> Finding:
        said = {"value": figure.value, "limit": self.limit, "subject": figure.subject}
        words = said | {name: figure.facts.get(name, "?") for name in ("shard", "partition")}
        return Finding(
            self.name,
            figure.subject,
            self._severity(figure.value),
            figure.value,
            self.sentence.format_map(words),
            self.remedy.format_map(words),
            {**figure.facts, "limit": self.limit},
        )

    def _severity(self, value: float) -> Severity:
        if self.critical is None:
            return Severity.WARNING
        is_critical = value <= self.critical if self.below else value >= self.critical
        return Severity.CRITICAL if is_critical else Severity.WARNING


def rules(limits: Limits = Limits()) -> dict[str, Rule]:  # noqa: B008  # A value that nobody can change.
    """The table, by name."""
    return {rule.name: rule for rule in (*_ABOUT_WORK, *_ABOUT_SHARDS, *_by_settings(limits))}


def _pool_lag(pool: str, limit: int) -> Rule:
    return Rule(
        f"pool_lag_{pool}",
        limit,
        limit * 10,
        f"{{value:,.0f}} executions of pool {pool} are published and not yet claimed (limit {{limit:,.0f}}).",
        f"Start more workers: `shardctl worker --pool {pool}`; if there are some, see what they run, and "
        "whether PostgreSQL keeps up: `shardctl doctor`.",
        looks=2,
    )


_ABOUT_WORK = (
    Rule(
        "dead_letters",
        100,
        500,
        "{value:,.0f} dead letters wait for somebody (limit {limit:,.0f}).",
        "See what they have in common: `shardctl dlq list`. Mend the cause, then `shardctl dlq redrive "
        "--filter …`, or `shardctl dlq discard --filter …` what nobody needs.",
    ),
    _pool_lag("short", 5_000),
    _pool_lag("medium", 2_000),
    _pool_lag("long", 1_000),
    Rule(
        "results_lag",
        5_000,
        10_000,
        "{value:,.0f} results are reported and not yet settled (limit {limit:,.0f}).",
        "Start another result processor: `shardctl results`; read `/healthz` of those that run: it says what "
        "they wait for.",
        looks=2,
    ),
    Rule(
        "duplicates",
        0.01,
        0.10,
        "{value:.1%} of what was fired died at the claim as a duplicate (limit {limit:.0%}).",
        "Harmless to the jobs, but work for nothing: look for partitions that change hands again and again: "
        "`shardctl rebalance status`, `shardctl shard list`.",
        looks=3,
    ),
    Rule(
        "dag_completion",
        0.95,
        0.50,
        "Only {value:.1%} of the last hour's DAG runs succeeded (limit {limit:.0%}).",
        "See which tasks fail: `shardctl dlq list`; after mending, re-run what failed: `shardctl dag rerun`.",
        below=True,
    ),
)

_ABOUT_SHARDS = (
    Rule(
        "shard_heartbeat",
        5,
        None,
        "Shard {subject} has not been heard of for {value:,.0f} s (limit {limit:g} s).",
        "Its standbys take over by themselves: see that every partition has an owner, `shardctl partition "
        "list`. Then start another shard: `shardctl shard`.",
    ),
    Rule(
        "shard_jobs",
        500_000,
        1_000_000,
        "Shard {subject} holds {value:,.0f} entries (limit {limit:,.0f}).",
        "Start another shard, which takes its share: `shardctl shard`; if partitions are uneven: `shardctl "
        "rebalance --dry-run`.",
    ),
    Rule(
        "tick_latency",
        0.1,
        1.0,
        "Of shard {subject}'s ticks one in a hundred takes {value:.3f} s or more from the fire time to "
        "Kafka's acknowledgement (limit {limit:g} s).",
        "See whether Kafka or the shard's machine is slow: `shardctl doctor`, the shard's `/metrics`; if the "
        "shard holds too much, start another one: `shardctl shard`.",
        looks=3,
    ),
    Rule(
        "shard_door",
        30,
        None,
        "Shard {subject} is alive, but its door has not answered the watcher for {value:,.0f} s "
        "(limit {limit:g} s).",
        "See whether it hangs or the watcher's network does: `shardctl shard list`, and `/healthz` at its "
        "address; let one that hangs hand over: `shardctl shard drain`.",
    ),
    Rule(
        "unreachable",
        30,
        30,
        "{subject} has been out of the watcher's reach for {value:,.0f} s (limit {limit:g} s).",
        "See what is up: `shardctl doctor`. Meanwhile no rule is judged that needs it.",
    ),
)


def _by_settings(limits: Limits) -> tuple[Rule, ...]:
    return (
        Rule(
            "oldest_due",
            limits.oldest_due_s,
            limits.oldest_due_s * 10,
            "Something due {value:,.0f} s ago is not yet fired: partition {partition}, shard {shard} (limit "
            "{limit:g} s).",
            "See who owns it and how far it is: `shardctl partition list`; whether Kafka takes what is "
            "fired: `shardctl doctor`; nobody owns it: start a shard, `shardctl shard`.",
            looks=2,
        ),
        Rule(
            "horizon_age",
            limits.horizon_age_s,
            limits.horizon_age_s * 10,
            "Shard {subject}'s horizon has been held back for {value:,.0f} s by an open transaction (limit "
            "{limit:g} s).",
            "Find and end it, as a superuser: `SELECT pid, datname, xact_start, query FROM pg_stat_activity "
            "WHERE backend_xid IS NOT NULL ORDER BY xact_start` has those of every database; also "
            "`pg_prepared_xacts`.",
        ),
        Rule(
            "floor_age",
            limits.floor_age_s,
            limits.floor_age_s * 10,
            "The claim floor of partition {partition} is {value:,.0f} s old (limit {limit:g} s).",
            "A pool without workers holds it back, or nobody leads: `shardctl shard list`, `shardctl "
            "doctor`. Nothing is lost; a replay would repeat more.",
            looks=3,
        ),
    )
