"""`shardctl bench e2e`: due → fired → claimed → run (no-op) → settled, by real processes.

One shard, one worker and one result processor, as `shardctl` runs them, on durable servers. Rounds of
one-shot jobs: some that are due one after the other (their latencies: fire time to settled, by the
database's clock); three bursts that are due at once (the rate, their median); as many again, while the
worker and the result processor are killed and started anew (what is lost or done twice, of all rounds). A
killed worker's leases last half a minute, so the last round says nothing about the rate.

The reference is the claim and the settling alone, as many rows, on one connection, afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from shardwheel.bench.claim import Gate, batches_of
from shardwheel.bench.embedded import Servers, embedded_servers
from shardwheel.bench.loop import open_loop
from shardwheel.bench.measure import machine, spread
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.bench.stored import entries_of, store
from shardwheel.store.jobs import read_now_ms

JOBS: Final = 20_000
SECONDS: Final = 10.0
KILLED: Final = ("worker", "results")
_RAW_BATCH: Final = 500
_BURSTS: Final = 3
Report = dict[str, Any]


def bench_e2e(jobs: int, seconds: float, say: Callable[[str], None], kill: Sequence[str] = KILLED) -> Report:
    with embedded_servers(say) as servers:
        return measure_e2e(servers, jobs, seconds, say, kill, _BURSTS)


def measure_e2e(
    servers: Servers,
    jobs: int,
    seconds: float,
    say: Callable[[str], None],
    kill: Sequence[str] = KILLED,
    bursts: int = 1,
) -> Report:
    with open_loop(servers) as loop:
        say("starting a shard, a worker, a result processor")
        loop.play([0])
        steady = max(10, jobs // 10)
        say(f"{steady:,} jobs, one after the other")
        begun = loop.play([int(place * seconds * 1000 / steady) for place in range(steady)])
        latencies = loop.latencies(begun)
        rounds = [begun]
        rates: list[float] = []
        for _ in range(bursts):
            say(f"{jobs:,} jobs at once")
            rounds.append(loop.play(itertools.repeat(0, jobs)))
            rates.append(jobs / rounds[-1].took_s)
        if kill:
            say(f"{jobs:,} jobs at once, killing: {', '.join(kill)}")
            rounds.append(loop.play(itertools.repeat(0, jobs), kill))
        lost = sum(loop.lost(one) for one in rounds)
        doubled = loop.doubled()
    say("the statements alone")
    per_s, raw_per_s = spread(rates).median, _raw_sql(servers.dsn, jobs)
    return {
        "per_s": round(per_s, 1),
        "bursts_per_s": [round(one, 1) for one in rates],
        "p50_ms": round(latencies.percentile_ms(50), 1),
        "p99_ms": round(latencies.percentile_ms(99), 1),
        "raw_sql_per_s": round(raw_per_s, 1),
        "ratio": round(per_s / raw_per_s, 3),
        "lost": lost,
        "doubled": doubled,
        "killed": rounds[-1].killed,
        "machine": machine(),
    }


def _raw_sql(dsn: str, rows: int) -> float:
    """Rows a second that are claimed and settled, when nothing else is done."""
    with psycopg.connect(dsn) as connection:
        now_ms = read_now_ms(connection)
    entries = list(entries_of(max(rows, _RAW_BATCH), now_ms, seed=99))
    store(dsn, entries)
    gate = Gate(dsn)
    try:
        batches = batches_of(entries, _RAW_BATCH, itertools.count(now_ms))
        claims, settles, _ = gate.run(itertools.islice(batches, -(-rows // _RAW_BATCH)), float("inf"))
    finally:
        gate.close()
    return 1 / (1 / claims + 1 / settles)


_LABELS: Final = {
    "per_s": "due to settled, a second",
    "raw_sql_per_s": "claim and settle alone, a second",
    "ratio": "ratio",
    "p50_ms": "due to settled, p50, ms",
    "p99_ms": "  p99, ms",
    "lost": "lost",
    "doubled": "doubled",
}


def print_result(result: Report) -> None:
    rows = [[label, result[name]] for name, label in _LABELS.items()]
    print_table(
        f"The whole loop (killed on the way: {', '.join(result['killed']) or 'nobody'})", ["", ""], rows
    )
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    rates = Bars(
        "Executions a second",
        "due to settled",
        {"the whole loop": result["per_s"], "claim and settle alone": result["raw_sql_per_s"]},
    )
    latencies = Bars("Due to settled", "ms", {"p50": result["p50_ms"], "p99": result["p99_ms"]})
    save_picture(path, "The whole loop", [rates, latencies])
