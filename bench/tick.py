"""`shardctl bench tick`: from a fire's time to the broker's acknowledgement, for every single fire.

A shard's worth of the mix is held, due at the rate asked for; the real ticker fires it on the real producer,
each few milliseconds, by the monotonic clock. The latency counts from the fire time, so a tick that comes
late or stalls is in the figures of all that was due meanwhile. Afterwards the topics are read back and
compared with what the schedules say: what is not there is missed, what is there twice is doubled.

The reference is the same producer alone, in the same process before the shard's run: as many messages at a
time, as often, from the call to the acknowledgement.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trio

from shardwheel.bench.embedded import embedded_kafka
from shardwheel.bench.firing import READ_LIMIT_S, expected_of, fire_for, plain, read_back, warm
from shardwheel.bench.measure import Latencies, machine
from shardwheel.bench.report import Bars, figure, print_machine, print_table, save_picture
from shardwheel.bench.stored import TOPIC_PARTITIONS, entries_of, hold
from shardwheel.kafka import Kafka
from shardwheel.service import quieten_collector
from shardwheel.shard.shard import TICK_S
from shardwheel.topics import job_topics

HELD: Final = 333_000
RATE_PER_S: Final = 2_000.0
START_MS: Final = 1_795_003_200_000

Report = dict[str, Any]


def bench_tick(held: int, rate_per_s: float, seconds: float, say: Callable[[str], None]) -> Report:
    quieten_collector()
    with embedded_kafka(say) as bootstrap:
        return trio.run(measure_tick, bootstrap, held, rate_per_s, seconds, say)


async def measure_tick(
    bootstrap: str, held: int, rate_per_s: float, seconds: float, say: Callable[[str], None]
) -> Report:
    bus = Kafka(bootstrap)
    await bus.ensure_topics(job_topics(TOPIC_PARTITIONS))
    say(f"holding {held:,} jobs")
    entries = list(entries_of(held, START_MS, rate_per_s))
    holdings = hold(entries, START_MS)
    say("the producer alone")
    bare = await _bare(bus, rate_per_s, seconds / 4)
    say(f"firing {rate_per_s:g} a second")
    log, through_ms = await fire_for(bus, holdings, START_MS, seconds)
    say("reading the topics back")
    found = await read_back(bus)
    expected = expected_of(entries, START_MS, through_ms)
    latencies = log.latencies()
    return {
        "held": held,
        "rate": rate_per_s,
        "p50_ms": round(latencies.percentile_ms(50), 3),
        "p99_ms": round(latencies.percentile_ms(99), 3),
        "max_ms": round(latencies.max_ms, 3),
        "bare_ack_p99_ms": round(bare.percentile_ms(99), 3),
        "missed": len(expected - found.keys()),
        "doubled": sum(found.values()) - len(found),
        "unexpected": len(found.keys() - expected),
        "fires": latencies.count,
        "histogram_ms": latencies.histogram(),
        "machine": machine(),
    }


# --- The reference ------------------------------------------------------------------------------------


async def _bare(bus: Kafka, rate_per_s: float, seconds: float) -> Latencies:
    """Publish at the rate, on the ticker's beat."""
    latencies = Latencies()
    under_way: deque[tuple[int, float, int]] = deque()

    def acknowledged(ticket: int) -> None:
        while under_way and under_way[0][0] <= ticket:
            _, at_s, count = under_way.popleft()
            latencies.record((time.monotonic() - at_s) * 1000, count)

    producer = bus.producer(on_acknowledged=acknowledged)
    try:
        await warm(producer)
        sent, begun_s = 0, time.monotonic()
        while sent < int(seconds * rate_per_s):
            now_s = time.monotonic()
            count = int((now_s - begun_s) * rate_per_s) - sent
            if count:
                under_way.append((producer.publish(plain(sent, count)), now_s, count))
                sent += count
            await trio.sleep(TICK_S)
        with trio.fail_after(READ_LIMIT_S):
            while under_way:
                await trio.sleep(TICK_S)
    finally:
        await producer.close()
    return latencies


def print_result(result: Report) -> None:
    labels = {
        "p50_ms": "fire time to acknowledgement, p50, ms",
        "p99_ms": "  p99, ms",
        "max_ms": "  longest, ms",
        "bare_ack_p99_ms": "bare acknowledgement, p99, ms",
        "fires": "fires",
        "missed": "missed",
        "doubled": "doubled",
    }
    rows = [[label, result[name]] for name, label in labels.items()]
    print_table(f"{result['held']:,} held, {result['rate']:g} fires a second", ["", ""], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    labels = {"p50_ms": "p50", "p99_ms": "p99", "max_ms": "longest", "bare_ack_p99_ms": "bare p99"}
    bars = {label: float(result[name]) for name, label in labels.items()}
    title = f"{result['held']:,} held, {result['rate']:g} fires a second"
    histogram = {figure(upper_ms): float(count) for upper_ms, count in result["histogram_ms"]}
    save_picture(
        path,
        title,
        [
            Bars("Fire time to acknowledgement", "ms", bars),
            Bars("How many, by latency (upper end in ms)", "fires", histogram, log=True),
        ],
    )
