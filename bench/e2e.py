"""`shardctl bench e2e`: due → fired → claimed → run (no-op) → settled, by real processes.

One shard, one worker and one result processor, as `shardctl` runs them, on durable servers. Three rounds of
one-shot jobs: some that are due one after the other (their latencies: fire time to settled, by the
database's clock); many that are due at once (the rate); as many again, while the worker and the result
processor are killed and started anew (what is lost or done twice, of all rounds). A killed worker's leases
last half a minute, so the last round says nothing about the rate.

The reference is the claim and the settling alone, as many rows, on one connection, afterwards.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import psycopg

from shardwheel.bench.claim import Gate, batches_of
from shardwheel.bench.embedded import embedded_etcd, embedded_kafka, embedded_postgres
from shardwheel.bench.measure import Latencies, cpu_s, machine, resident_bytes
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.bench.stored import entries_of, once_entries, store
from shardwheel.store.jobs import read_now_ms

JOBS: Final = 20_000
SECONDS: Final = 10.0
_RAW_BATCH: Final = 500
_LIMIT_S: Final = 600.0
_ROLES: Final = ("shard", "worker", "results")
# By id, which begins with the time: looking at the progress should cost the database little.
_PROGRESS: Final = b"""
SELECT count(*) FILTER (WHERE state = 'succeeded'), shardwheel.ms(max(ended_at))
  FROM shardwheel.executions
 WHERE execution_id >= shardwheel.id_floor(shardwheel.at(%s))
   AND execution_id < shardwheel.id_floor(shardwheel.at(%s + 1))"""
# How often to look: often only while somebody is to be killed.
_LOOK_S, _LOOK_CLOSELY_S = 0.4, 0.1
_LATENCIES: Final = b"""
SELECT extract(epoch FROM ended_at - due_at)::float8 * 1000
  FROM shardwheel.executions WHERE scheduled_at BETWEEN shardwheel.at(%s) AND shardwheel.at(%s)"""
# An execution has one row; what ran to a good end twice has two such attempts.
_DOUBLED: Final = b"""
SELECT count(*) FROM (SELECT execution_id FROM shardwheel.attempts WHERE outcome = 'succeeded'
                       GROUP BY execution_id HAVING count(*) > 1) AS twice"""

Report = dict[str, Any]


def bench_e2e(jobs: int, seconds: float, say: Callable[[str], None]) -> Report:
    with ExitStack() as servers:
        dsn = servers.enter_context(embedded_postgres(say))
        etcd = servers.enter_context(embedded_etcd(say))
        kafka = servers.enter_context(embedded_kafka(say))
        return measure_e2e(dsn, etcd, kafka, jobs, seconds, say)


def measure_e2e(
    dsn: str,
    etcd: str,
    kafka: str,
    jobs: int,
    seconds: float,
    say: Callable[[str], None],
    kill: Sequence[str] = ("worker", "results"),
) -> Report:
    with open_loop(dsn, etcd, kafka) as loop:
        say("starting a shard, a worker, a result processor")
        for role in _ROLES:
            loop.start(role)
        loop.play([0])
        steady = max(10, jobs // 10)
        say(f"{steady:,} jobs, one after the other")
        begun = loop.play([int(place * seconds * 1000 / steady) for place in range(steady)])
        latencies = loop.latencies(begun)
        say(f"{jobs:,} jobs at once")
        burst = loop.play(itertools.repeat(0, jobs))
        say(f"{jobs:,} jobs at once, killing: {', '.join(kill)}")
        killed = loop.play(itertools.repeat(0, jobs), kill)
        lost = sum(loop.lost(one) for one in (begun, burst, killed))
        doubled = loop.doubled()
    say("the statements alone")
    per_s, raw_per_s = jobs / burst.took_s, _raw_sql(dsn, jobs)
    return {
        "per_s": round(per_s, 1),
        "p50_ms": round(latencies.percentile_ms(50), 1),
        "p99_ms": round(latencies.percentile_ms(99), 1),
        "raw_sql_per_s": round(raw_per_s, 1),
        "ratio": round(per_s / raw_per_s, 3),
        "lost": lost,
        "doubled": doubled,
        "killed": killed.killed,
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


class _Round:
    """Jobs that were due in one stretch of time, and how long the last of them took."""

    def __init__(self, count: int, first_ms: int, last_ms: int) -> None:
        self.count = count
        self.span = (first_ms, last_ms)
        self.took_s = 0.0
        self.killed: list[str] = []


class Loop:
    def __init__(self, folder: Path, dsn: str, environment: dict[str, str]) -> None:
        self._folder = folder
        self._dsn = dsn
        self._environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._options: dict[str, tuple[str, ...]] = {}
        self._rounds = 0

    def start(self, role: str, *options: str) -> None:
        """Start a process; with the same options again, should it end by itself."""
        options = self._options.setdefault(role, options)
        with (self._folder / f"{role}.log").open("ab") as log:
            self._processes[role] = subprocess.Popen(
                [sys.executable, "-m", "shardwheel.cli", role, *options],
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    def kill(self, role: str) -> None:
        self._processes[role].kill()
        self._processes[role].wait()

    def resident_bytes(self, role: str) -> int:
        return resident_bytes(self._processes[role].pid)

    def cpu_s(self, role: str) -> float:
        """CPU time of the process so far."""
        return cpu_s(self._processes[role].pid)

    def close(self) -> None:
        for role in self._processes:
            self.kill(role)

    def play(self, offsets_ms: Iterable[int], kill: Iterable[str] = ()) -> _Round:
        """Store jobs that are due at these offsets from a moment soon, and wait until all have succeeded."""
        offsets = list(offsets_ms)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            # Storing with triggers and the shard's next read must be over when the first one is due.
            due_ms = read_now_ms(connection) + 3_000 + len(offsets) // 2
            self._rounds += 1
            store(self._dsn, once_entries((due_ms + at for at in offsets), self._rounds), triggers=True)
            played = _Round(len(offsets), due_ms + min(offsets), due_ms + max(offsets))
            doomed = list(kill)
            deadline_s = time.monotonic() + _LIMIT_S
            while (done := self._succeeded(connection, played)) < played.count:
                if doomed and done >= played.count // 10:
                    played.killed.append(doomed.pop(0))
                    self.kill(played.killed[-1])
                    self.start(played.killed[-1])
                self._supervise()
                if time.monotonic() > deadline_s:
                    break
                time.sleep(_LOOK_CLOSELY_S if doomed else _LOOK_S)
        return played

    def _succeeded(self, connection: psycopg.Connection[Any], played: _Round) -> int:
        ((succeeded, ended_ms),) = connection.execute(_PROGRESS, played.span)
        played.took_s = ((ended_ms or played.span[0]) - played.span[0]) / 1000
        return int(succeeded)

    def _supervise(self) -> None:
        for role, process in list(self._processes.items()):
            if process.poll() is not None:
                self.start(role)

    def lost(self, played: _Round) -> int:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            return played.count - self._succeeded(connection, played)

    def doubled(self) -> int:
        with psycopg.connect(self._dsn) as connection:
            ((count,),) = connection.execute(_DOUBLED)
            return int(count)

    def latencies(self, played: _Round) -> Latencies:
        latencies = Latencies()
        with psycopg.connect(self._dsn) as connection:
            for (latency_ms,) in connection.execute(_LATENCIES, played.span):
                latencies.record(latency_ms)
        return latencies


@contextmanager
def open_loop(
    dsn: str,
    etcd: str,
    kafka: str,
    handlers: str = "shardwheel.bench.noop",
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Loop]:
    """Ends every process that was started in it. `more`: of their environment."""
    environment = {name: value for name, value in os.environ.items() if "SHARDWHEEL" not in name} | {
        "SHARDWHEEL_POSTGRES_DSN": dsn,
        "SHARDWHEEL_ETCD_ENDPOINTS": etcd,
        "SHARDWHEEL_KAFKA_BOOTSTRAP": kafka,
        "SHARDWHEEL_CLUSTER": "bench",
        "SHARDWHEEL_HANDLERS": handlers,
        # A busy machine must not look like a dead shard.
        "SHARDWHEEL_LEASE_TTL_S": "10",
        **more,
    }
    with tempfile.TemporaryDirectory(prefix="shardwheel-bench-") as folder:
        loop = Loop(Path(folder), dsn, environment)
        try:
            yield loop
        finally:
            loop.close()


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
    print_table(f"The whole loop (killed on the way: {', '.join(result['killed'])})", ["", ""], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    rates = Bars(
        "Executions a second",
        "due to settled",
        {"the whole loop": result["per_s"], "claim and settle alone": result["raw_sql_per_s"]},
    )
    latencies = Bars("Due to settled", "ms", {"p50": result["p50_ms"], "p99": result["p99_ms"]})
    save_picture(path, "The whole loop", [rates, latencies])
