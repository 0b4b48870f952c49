"""What a service's `/metrics` says, and what two of them say together. Pure: texts in, figures out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from shardwheel.alerts.rules import Figure

# Of fewer ticks or fires between two looks a share says nothing.
LEAST_TICKS = 20
LEAST_FIRES = 100

_GAUGES = {
    "shardwheel_wheel_entries": "entries",
    "shardwheel_oldest_due_seconds": "oldest_due_s",
    "shardwheel_shard_heartbeat_age_seconds": "heartbeat_age_s",
    "shardwheel_horizon_age_seconds": "horizon_age_s",
    "shardwheel_fires_total": "fires",
}
_BUCKETS = "shardwheel_tick_latency_seconds_bucket"
_DUPLICATES = "shardwheel_duplicates_total"


class Scrape(NamedTuple):
    """The samples that the rules need. `ticks`: how many took at most so many seconds, by bucket."""

    entries: float = 0.0
    oldest_due_s: float = 0.0
    heartbeat_age_s: float = 0.0
    horizon_age_s: float = 0.0
    fires: float = 0.0
    duplicates: float = 0.0
    ticks: Mapping[float, float] = {}


def parse_scrape(text: str) -> Scrape:
    """`ValueError` when it is not Prometheus's text format."""
    found: dict[str, float] = {}
    ticks: dict[float, float] = {}
    duplicates = 0.0
    for sample in (s for family in text_string_to_metric_families(text) for s in family.samples):
        if sample.name in _GAUGES:
            found[_GAUGES[sample.name]] = sample.value
        elif sample.name == _BUCKETS:
            ticks[float(sample.labels["le"])] = sample.value
        elif sample.name == _DUPLICATES and sample.labels.get("where") == "claim":
            duplicates = sample.value
    return Scrape(**found, duplicates=duplicates, ticks=ticks)


def tick_p99_s(before: Scrape, after: Scrape) -> float | None:
    """Of the ticks between the two: 99% took no longer. None: there were too few to say so."""
    counts = sorted((bound, count - before.ticks.get(bound, 0.0)) for bound, count in after.ticks.items())
    if not counts or counts[-1][1] < LEAST_TICKS:
        return None
    rank = 0.99 * counts[-1][1]
    low_s, below = 0.0, 0.0
    for bound_s, count in counts:
        if count >= rank:
            # Within a bucket they are taken to be spread evenly; of the last one only its lower bound is
            # known.
            return low_s if bound_s == inf else low_s + (bound_s - low_s) * (rank - below) / (count - below)
        low_s, below = bound_s, count
    return None


def figures_of(shard_id: str, before: Scrape | None, after: Scrape) -> list[Figure]:
    """What one shard's door says of it."""
    figures = [
        Figure("shard_jobs", after.entries, shard_id),
        Figure("horizon_age", after.horizon_age_s, shard_id),
    ]
    p99_s = None if before is None else tick_p99_s(before, after)
    return figures if p99_s is None else [*figures, Figure("tick_latency", p99_s, shard_id)]


def duplicates_share(pairs: Iterable[tuple[Scrape, Scrape]]) -> float | None:
    """Duplicates per fire between two looks, of everybody together; None when too little was fired."""
    fires = duplicates = 0.0
    for before, after in pairs:
        fires += max(0.0, after.fires - before.fires)
        duplicates += max(0.0, after.duplicates - before.duplicates)
    return duplicates / fires if fires >= LEAST_FIRES else None
