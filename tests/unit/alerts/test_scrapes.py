"""What `/metrics` says: read as a service writes it, and p99 and shares between two looks."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from shardwheel.alerts.rules import Figure
from shardwheel.alerts.scrapes import Scrape, duplicates_share, figures_of, parse_scrape, tick_p99_s
from shardwheel.metrics import exposition

BOUNDS_S = (0.016, 0.05, 0.1, 0.25)


def door(ticks_s: list[float], entries: int = 7, duplicates: int = 0) -> Scrape:
    registry = CollectorRegistry()
    Gauge("shardwheel_wheel_entries", "", ["shard"], registry=registry).labels("a").set(entries)
    Gauge("shardwheel_horizon_age_seconds", "", registry=registry).set(3)
    Counter("shardwheel_fires_total", "", registry=registry).inc(1_000)
    dropped = Counter("shardwheel_duplicates_total", "", ["where"], registry=registry)
    dropped.labels("claim").inc(duplicates)
    dropped.labels("settle").inc(99)
    latency = Histogram("shardwheel_tick_latency_seconds", "", buckets=BOUNDS_S, registry=registry)
    for tick_s in ticks_s:
        latency.observe(tick_s)
    return parse_scrape(generate_latest(registry).decode())


def test_a_door_is_read() -> None:
    scrape = door([0.01, 0.2], duplicates=5)
    assert (scrape.entries, scrape.horizon_age_s, scrape.fires, scrape.duplicates) == (7, 3, 1_000, 5)
    assert scrape.ticks[0.016] == 1 and scrape.ticks[0.25] == 2


def test_the_metrics_of_this_version_have_the_names_that_are_looked_for() -> None:
    assert parse_scrape(exposition().decode()).ticks


def test_what_is_no_metrics_is_refused() -> None:
    with pytest.raises(ValueError):
        parse_scrape("<html>not { here</html>")


def test_p99_is_of_the_ticks_between_two_looks() -> None:
    slow_before = [0.2] * 100
    quick_since = [0.01] * 100
    p99_s = tick_p99_s(door(slow_before), door(slow_before + quick_since))
    assert p99_s is not None and p99_s <= 0.016
    p99_s = tick_p99_s(door(quick_since), door(quick_since + [0.01] * 98 + [0.2] * 2))
    assert p99_s is not None and 0.1 < p99_s <= 0.25
    exactly_one = tick_p99_s(door([]), door([0.01] * 99 + [0.2]))
    assert exactly_one is not None and exactly_one <= 0.1
    assert tick_p99_s(door([]), door([3.0] * 50)) == 0.25


def test_of_few_ticks_nothing_is_said() -> None:
    assert tick_p99_s(door([]), door([0.2] * 19)) is None
    assert [f.rule for f in figures_of("a", None, door([0.2] * 50))] == ["shard_jobs", "horizon_age"]
    assert Figure("shard_jobs", 7, "a") in figures_of("a", door([]), door([0.2] * 50))


def test_duplicates_are_a_share_of_what_was_fired_since() -> None:
    shard = (Scrape(fires=1_000), Scrape(fires=1_200))
    worker = (Scrape(duplicates=50), Scrape(duplicates=56))
    assert duplicates_share([shard, worker]) == 0.03
    assert duplicates_share([(Scrape(fires=0), Scrape(fires=99, duplicates=99))]) is None
