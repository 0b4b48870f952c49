"""The metrics of contract.md, one object each, on Prometheus's default registry.

A name here is public: dashboards and alerts rely on it. Every process exports all of them; those that
it never touches stay without samples (labelled ones) or at zero.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

CONTENT_TYPE = CONTENT_TYPE_LATEST

# Around the promises: a slot is 16 ms, the alert on tick latency stands at 100 ms.
_LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.016, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class BatchHistogram(Collector):
    """A histogram that is told of many values at once: the library's own takes 3 µs for each, which a claim
    of hundreds would feel. Written by one thread, read by any."""

    def __init__(
        self,
        name: str,
        documentation: str,
        buckets_s: Sequence[float],
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds_s = tuple(buckets_s)
        self._counts = [0] * (len(self._bounds_s) + 1)
        self._sum_s = 0.0
        registry.register(self)

    def observe_all(self, values_s: Sequence[float]) -> None:
        bounds_s, counts = self._bounds_s, self._counts
        for value_s in values_s:
            counts[bisect_left(bounds_s, value_s)] += 1
        self._sum_s += sum(values_s)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        labels = [*(str(float(bound_s)) for bound_s in self._bounds_s), "+Inf"]
        buckets = list(zip(labels, accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(self._name, self._documentation, buckets=buckets, sum_value=self._sum_s)


WHEEL_ENTRIES = Gauge("shardwheel_wheel_entries", "Entries held in the wheels.", ["shard"])
TICK_LATENCY = Histogram(
    "shardwheel_tick_latency_seconds",
    "Fire time to the broker's acknowledgement.",
    buckets=_LATENCY_BUCKETS_S,
)
FIRE_LATENESS = BatchHistogram(
    "shardwheel_fire_lateness_seconds", "Scheduled time to claimed.", _LATENCY_BUCKETS_S
)
FIRES = Counter("shardwheel_fires_total", "Fires published.")
OLDEST_DUE = Gauge("shardwheel_oldest_due_seconds", "Age of the oldest entry that is due and not yet fired.")
SHARD_HEARTBEAT_AGE = Gauge(
    "shardwheel_shard_heartbeat_age_seconds", "Time since the shard last renewed its lease.", ["shard"]
)
PARTITIONS_OWNED = Gauge("shardwheel_partitions_owned", "Partitions that the shard owns.", ["shard"])
TAKEOVER = Histogram("shardwheel_takeover_seconds", "Time from knowing an orphan to firing it.")
POOL_LAG = Gauge("shardwheel_pool_lag", "Messages not yet claimed.", ["pool", "priority"])
RESULTS_LAG = Gauge("shardwheel_results_lag", "Results not yet settled.")
RESULTS_BREAKER = Gauge(
    "shardwheel_results_breaker", "1 while results lag so far that work on DAGs is put off."
)
HELD = Gauge("shardwheel_held", "Executions held, by reason.", ["reason"])
DEAD_LETTERS = Gauge("shardwheel_dead_letters", "Dead letters that nobody has dealt with.")
CALLBACKS = Counter("shardwheel_callbacks_total", "Callbacks tried, by what became of it.", ["outcome"])
DAG_RUNS = Counter("shardwheel_dag_runs_total", "DAG runs ended, by outcome.", ["outcome"])
DAG_SLA = Counter("shardwheel_dag_sla_total", "DAG runs with an sla_s, by whether they kept it.", ["outcome"])
DAG_LATE = Gauge("shardwheel_dag_runs_late", "DAG runs under way beyond their sla_s.")
DAG_ENDS = Counter(
    "shardwheel_dag_ends_total",
    "Ends of DAG tasks that were put off while results lagged, and those of them that runs were told since.",
    ["step"],
)
DUPLICATES = Counter("shardwheel_duplicates_total", "Duplicates dropped, by where.", ["where"])
SKIPS = Counter("shardwheel_skips_total", "Scheduled times skipped, by reason.", ["reason"])
ABANDONED = Gauge("shardwheel_abandoned_handlers", "Handlers that run on after their attempt was given up.")
CLOCK_OFFSET = Gauge("shardwheel_clock_offset_seconds", "The database's clock minus this process's.")
CLOCK_UNCERTAINTY = Gauge(
    "shardwheel_clock_uncertainty_seconds", "Half the smallest round trip to the database."
)
HORIZON_AGE = Gauge("shardwheel_horizon_age_seconds", "Age of the change feed's horizon.")
FLOOR_AGE = Gauge("shardwheel_floor_age_seconds", "Age of the oldest partition's claim floor.")
API_REQUEST = Histogram("shardwheel_api_request_seconds", "Time to answer a request.", ["route"])


def tell_run_ends(ends: Iterable[tuple[str, bool | None]]) -> None:
    """DAG runs that ended: how, and whether in time (None: nobody promised any)."""
    for outcome, in_time in ends:
        DAG_RUNS.labels(outcome).inc()
        if in_time is not None:
            DAG_SLA.labels("met" if in_time else "missed").inc()


def exposition() -> bytes:
    """All metrics in Prometheus's text format: the body of `/metrics`."""
    return generate_latest()
