"""`shardctl bench herd`: 200,000 jobs that are all due at 09:00. How late is the last, and what is the way
there?

Crons of "0 9 * * *" in one shard's wheel; the real ticker and producer, by the monotonic clock, from two
seconds before nine. Lateness counts from nine o'clock to the broker's acknowledgement: the workers' part is
`bench e2e`'s. The reference is a bare produce loop of as many messages, right after, in the same process.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import trio

from shardwheel.bench.embedded import embedded_kafka
from shardwheel.bench.firing import expected_of, fire_for, plain, read_back
from shardwheel.bench.measure import Latencies, machine
from shardwheel.bench.report import Panel, print_machine, print_table, save_picture
from shardwheel.bench.stored import TOPIC_PARTITIONS, hold, once_entries
from shardwheel.job import JobEntry
from shardwheel.kafka import Kafka
from shardwheel.partition import partition_of
from shardwheel.service import quieten_collector
from shardwheel.timing import parse_schedule
from shardwheel.topics import job_topics

JOBS: Final = 200_000
SECONDS: Final = 10.0
NINE_MS: Final = 1_794_992_400_000  # 18 November 2026, 09:00 UTC.
_BEFORE_MS: Final = 2_000
_BARE_AT_ONCE: Final = 5_000

Report = dict[str, Any]
Say = Callable[[str], None]


def bench_herd(jobs: int, seconds: float, say: Say) -> Report:
    quieten_collector()
    with embedded_kafka(say) as bootstrap:
        return trio.run(measure_herd, bootstrap, jobs, seconds, say)


async def measure_herd(bootstrap: str, jobs: int, seconds: float, say: Say) -> Report:
    bus = Kafka(bootstrap)
    await bus.ensure_topics(job_topics(TOPIC_PARTITIONS))
    say(f"holding {jobs:,} jobs")
    start_ms = NINE_MS - _BEFORE_MS
    entries = list(herd_entries(jobs, start_ms))
    holdings = hold(entries, start_ms)
    say("nine o'clock is near")
    log, through_ms = await fire_for(bus, holdings, start_ms, _BEFORE_MS / 1000 + seconds)
    say("the producer alone")
    bare_s = await _bare(bus, jobs)
    say("reading the topics back")
    found, expected = await read_back(bus), expected_of(entries, start_ms, through_ms)
    latencies = log.latencies()
    return {
        "jobs": jobs,
        "p50_ms": round(latencies.percentile_ms(50), 1),
        "p99_ms": round(latencies.percentile_ms(99), 1),
        "max_ms": round(latencies.max_ms, 1),
        "bare_ms": round(bare_s * 1000, 1),
        "ratio": round(bare_s * 1000 / latencies.max_ms, 3) if latencies.max_ms else 0.0,
        "lateness_ms": curve(latencies),
        "missed": len(expected - found.keys()),
        "doubled": sum(found.values()) - len(found),
        "machine": machine(),
    }


def herd_entries(count: int, now_ms: int) -> Iterator[JobEntry]:
    """Jobs of "0 9 * * *", created just now."""
    dice = random.Random(9)
    text = parse_schedule(now_ms=0, cron="0 9 * * *", time_zone="UTC").schedule.text
    (template,) = once_entries([now_ms])
    for _ in range(count):
        job_id = dice.randbytes(16)
        yield template._replace(
            job_id=job_id,
            partition=partition_of(job_id),
            schedule=text,
            anchor_ms=0,
            last_ms=None,
            schedule_no=dice.getrandbits(63) | 1,
        )


def curve(latencies: Latencies) -> dict[str, float]:
    """By share of the herd (in percent), how long after nine so much of it was acknowledged."""
    return {str(percent): round(latencies.percentile_ms(percent), 1) for percent in (1, *range(5, 101, 5))}


async def _bare(bus: Kafka, count: int) -> float:
    """Seconds until as many plain messages are acknowledged."""
    producer = bus.producer(on_acknowledged=lambda _: None)
    try:
        await producer.wait_acknowledged(producer.publish(plain(0, 1)))
        begun_s, ticket = time.perf_counter(), 0
        for first in range(0, count, _BARE_AT_ONCE):
            while producer.room < _BARE_AT_ONCE:
                await trio.sleep(0.001)
            ticket = producer.publish(plain(first, min(_BARE_AT_ONCE, count - first)))
        await producer.wait_acknowledged(ticket)
        return time.perf_counter() - begun_s
    finally:
        await producer.close()


_LABELS: Final = {
    "p50_ms": "nine o'clock to acknowledgement, p50, ms",
    "p99_ms": "  p99, ms",
    "max_ms": "  the last, ms",
    "bare_ms": "as many bare messages, ms",
    "missed": "missed",
    "doubled": "doubled",
}


def print_result(result: Report) -> None:
    rows = [[label, result[name]] for name, label in _LABELS.items()]
    print_table(f"{result['jobs']:,} jobs due at 09:00", ["", ""], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    shares = [float(percent) for percent in result["lateness_ms"]]
    lines = {"herd": list(result["lateness_ms"].values())}
    panel = Panel("Lateness over the herd", "acknowledged, %", "ms after nine", shares, lines, log_x=False)
    save_picture(path, f"{result['jobs']:,} jobs due at 09:00", [panel])
