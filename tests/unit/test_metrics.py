"""The histogram that is told of many values at once says what the library's own would."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from shardwheel.metrics import BatchHistogram

BOUNDS_S = (0.001, 0.25, 1, 30)
VALUES_S = [0.0, 0.001, 0.0011, 0.25, 0.3, 1.0, 29.9, 30.0, 31.0, 4_000.0]


def test_a_batch_counts_as_its_values_one_by_one() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    batched = BatchHistogram("lateness_seconds", "How late.", BOUNDS_S, registry=ours)
    single = Histogram("lateness_seconds", "How late.", buckets=BOUNDS_S, registry=theirs)
    batched.observe_all(VALUES_S[:4])
    batched.observe_all(VALUES_S[4:])
    batched.observe_all([])
    for value_s in VALUES_S:
        single.observe(value_s)
    expected = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert generate_latest(ours).splitlines() == expected
