"""The benchmarks' own arithmetic: what they report must be what they saw."""

from __future__ import annotations

import random

from shardwheel.bench.measure import Latencies, machine, repeat, spread


def test_percentiles_are_right_to_two_percent() -> None:
    dice = random.Random(6)
    values_ms = [dice.expovariate(1 / 20) for _ in range(20_000)]
    latencies = Latencies()
    for value_ms in values_ms:
        latencies.record(value_ms)
    values_ms.sort()
    for percent in (1, 50, 90, 99, 99.9):
        exact_ms = values_ms[int(len(values_ms) * percent / 100) - 1]
        assert abs(latencies.percentile_ms(percent) - exact_ms) <= 0.02 * exact_ms + 0.001
    assert latencies.percentile_ms(100) == latencies.max_ms == values_ms[-1]


def test_histograms_of_several_processes_add_up() -> None:
    one, other, both = Latencies(), Latencies(), Latencies()
    for value_ms in (0.0, 0.127, 0.128, 5.0):
        one.record(value_ms)
        both.record(value_ms)
    other.record(900.0, times=3)
    both.record(900.0, times=3)
    one.add(other)
    assert one.count == both.count == 7
    assert [one.percentile_ms(p) for p in (10, 50, 100)] == [both.percentile_ms(p) for p in (10, 50, 100)]
    assert one.percentile_ms(50) == 5.0 or abs(one.percentile_ms(50) - 5.0) < 0.1


def test_a_histogram_counts_all_and_puts_each_below_its_upper_end() -> None:
    latencies = Latencies()
    for value_ms in (0.001, 0.5, 0.9, 8.0, 8.1, 1_000.0):
        latencies.record(value_ms)
    bars = latencies.histogram()
    assert sum(count for _, count in bars) == 6
    assert [upper_ms for upper_ms, _ in bars] == sorted(upper_ms for upper_ms, _ in bars)
    assert bars[-1][0] >= 1_000.0
    assert sum(count for upper_ms, count in bars if upper_ms < 8.0) == 3


def test_a_report_names_machine_time_and_versions() -> None:
    about = machine()
    assert {"python", "PostgreSQL", "etcd", "Kafka", "psycopg", "confluent-kafka"} <= set(about["versions"])
    assert about["measured_at"].endswith("Z")


def test_an_empty_histogram_and_an_early_latency() -> None:
    latencies = Latencies()
    assert latencies.percentile_ms(99) == 0.0
    latencies.record(-3.0)
    assert latencies.percentile_ms(99) == 0.0
    assert latencies.count == 1


def test_a_spread_is_the_median_between_its_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    values = iter([5.0, 1.0, 3.0])
    assert repeat(3, lambda: next(values)).median == 3.0
