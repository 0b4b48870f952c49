"""`shardctl bench fire`: how many fires a second one shard publishes, and two and three at once.

The mix is held by real holdings and fired by the real ticker on the real producer; only the clock is ours:
it runs as fast as the producer has room, so that there is always something due. Each job that fires goes
back into its wheel. What counts is acknowledged by Kafka.

The reference is a bare loop on confluent-kafka with the same settings and the same messages (of the same
number of topic partitions), in a process of its own, right after the shard's.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import trio

from shardwheel.bench.embedded import embedded_kafka
from shardwheel.bench.measure import machine, spread
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.bench.stored import TOPIC_PARTITIONS, entries_of, hold
from shardwheel.kafka import Kafka
from shardwheel.kafka_settings import client_settings, producer_settings
from shardwheel.logs import set_up_logs
from shardwheel.ports import Message
from shardwheel.service import quieten_collector
from shardwheel.shard.holding import Holding
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.ticker import Ticker
from shardwheel.topics import job_topics

HELD: Final = 100_000
SHARDS: Final = (1, 2, 3)
_REPEATS: Final = 3
START_MS: Final = 1_795_003_200_000
# So many fires a simulated second; a step of it is one tick, of about as many fires as a busy shard's.
_RATE_PER_S: Final = 5_000.0
_STEP_MS: Final = 100
_BUFFER: Final = 100_000
_LEAST_ROOM: Final = 50_000
_SAMPLE: Final = 20_000
_LIMIT_S: Final = 600.0

Report = dict[str, Any]
Burst = Callable[[str, dict[int, Holding], float], float]


def bench_fire(seconds: float, say: Callable[[str], None], shards: Sequence[int] = SHARDS) -> Report:
    with embedded_kafka(say) as bootstrap:
        return measure_fire(bootstrap, seconds, say, shards=shards)


def measure_fire(
    bootstrap: str,
    seconds: float,
    say: Callable[[str], None],
    held: int = HELD,
    shards: Sequence[int] = SHARDS,
) -> Report:
    """One shard and the bare loop in turn, several times: the medians, and the ratios' spread."""
    trio.run(Kafka(bootstrap).ensure_topics, job_topics(TOPIC_PARTITIONS))
    each_s = seconds / (2 * _REPEATS + len(shards) - 1)
    fires: list[float] = []
    bares: list[float] = []
    for turn in range(_REPEATS):
        say(f"one shard with {held:,} jobs, then bare produce: {turn + 1} of {_REPEATS}")
        fires.append(_at_once(1, fire, bootstrap, held, each_s))
        bares.append(_at_once(1, produce_bare, bootstrap, held, each_s))
    by_shards = {"1": round(spread(fires).median)}
    for count in shards[1:]:
        say(f"{count} at once, {held:,} jobs each")
        by_shards[str(count)] = round(_at_once(count, fire, bootstrap, held, each_s))
    ratios = spread(one / bare for one, bare in zip(fires, bares, strict=True))
    return {
        "fires_per_s": by_shards["1"],
        "bare_produce_per_s": round(spread(bares).median),
        "ratio": round(ratios.median, 3),
        "ratio_spread": [round(ratios.low, 3), round(ratios.high, 3)],
        "by_shards": by_shards,
        "runs": {"fires_per_s": [round(one) for one in fires], "bare_per_s": [round(one) for one in bares]},
        "machine": machine(),
    }


# --- Processes ----------------------------------------------------------------------------------------


def _at_once(count: int, burst: Burst, bootstrap: str, held: int, seconds: float) -> float:
    """So many processes that begin together, once all have loaded; their rates added up."""
    spawn = multiprocessing.get_context("spawn")
    loaded = spawn.Barrier(count)
    rates = spawn.SimpleQueue()
    children = [
        spawn.Process(target=_child, args=(loaded, rates, burst, bootstrap, held, seconds, seed))
        for seed in range(1, count + 1)
    ]
    for child in children:
        child.start()
    try:
        for child in children:
            child.join(_LIMIT_S)
            if child.exitcode != 0:
                raise RuntimeError(f"a process of the benchmark ended with {child.exitcode}")
        return sum(float(rates.get()) for _ in children)
    finally:
        for child in children:
            child.kill()


def _child(
    loaded: Any, rates: Any, burst: Burst, bootstrap: str, held: int, seconds: float, seed: int
) -> None:
    set_up_logs("error", "", role="bench")
    holdings = hold(entries_of(held, START_MS, _RATE_PER_S, seed=seed), START_MS)
    quieten_collector()
    loaded.wait(_LIMIT_S)
    rates.put(burst(bootstrap, holdings, seconds))


# --- The shard's way ----------------------------------------------------------------------------------


def fire(bootstrap: str, holdings: dict[int, Holding], seconds: float) -> float:
    """Fires a second, acknowledged."""
    return trio.run(_fire, bootstrap, holdings, seconds)


async def _fire(bootstrap: str, holdings: dict[int, Holding], seconds: float) -> float:
    clock = _FastClock()
    producer = Kafka(bootstrap, buffer_messages=_BUFFER).producer(lambda ticket: ticker.acknowledged(ticket))
    ticker = Ticker(holdings, Ledger(), producer, now_ms=clock)
    try:
        ticker.tick(1)
        await ticker.all_acknowledged()  # The driver knows the broker and the topics from here on.
        fired, begun_s = 0, time.perf_counter()
        while time.perf_counter() - begun_s < seconds:
            if producer.room < _LEAST_ROOM:
                await trio.sleep(0.001)
                continue
            clock.now_ms += _STEP_MS
            fired += ticker.tick(1)
            await trio.lowlevel.checkpoint()
        await ticker.all_acknowledged()
        return fired / (time.perf_counter() - begun_s)
    finally:
        await producer.close()


class _FastClock:
    def __init__(self) -> None:
        self.now_ms = START_MS + _STEP_MS

    def __call__(self) -> float:
        return self.now_ms


# --- The bare way -------------------------------------------------------------------------------------


def produce_bare(bootstrap: str, holdings: dict[int, Holding], seconds: float) -> float:
    """Messages a second of a plain produce loop, acknowledged."""
    messages = _sample(holdings)
    settings = producer_settings(client_settings(bootstrap, {"log_level": "0"}), _BUFFER)
    producer = confluent_kafka.Producer(settings)
    _produce(producer, messages[:1])
    producer.flush(_LIMIT_S)
    endless = cycle(messages)
    sent, begun_s = 0, time.perf_counter()
    while time.perf_counter() - begun_s < seconds:
        sent += _produce(producer, islice(endless, 1_000))
        producer.poll(0)
        while len(producer) > _BUFFER - _LEAST_ROOM:
            producer.poll(0.001)
    producer.flush(_LIMIT_S)
    return sent / (time.perf_counter() - begun_s)


def _produce(producer: confluent_kafka.Producer, messages: Any) -> int:
    produce, count = producer.produce, 0
    for topic, topic_partition, key, value in messages:
        produce(topic, value, key, topic_partition)
        count += 1
    return count


def _sample(holdings: dict[int, Holding]) -> list[Message]:
    """What the shard would publish next."""
    messages: list[Message] = []
    now_ms = START_MS
    while len(messages) < _SAMPLE:
        now_ms += _STEP_MS
        for holding in set(holdings.values()):
            holding.due(now_ms, messages, [])
    return messages


def print_result(result: Report) -> None:
    rows: list[list[object]] = [
        [f"{shards} shard{'s' if shards != '1' else ''}", rate]
        for shards, rate in result["by_shards"].items()
    ]
    rows.append(["bare produce", result["bare_produce_per_s"]])
    rows.append(["ratio, 1 shard to bare", result["ratio"]])
    print_table("Fires a second, acknowledged by Kafka", ["", "per second"], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    bars = {f"{shards} at once": float(rate) for shards, rate in result["by_shards"].items()}
    bars["bare produce"] = float(result["bare_produce_per_s"])
    save_picture(path, "Fires a second", [Bars("Acknowledged by Kafka", "a second", bars)])
