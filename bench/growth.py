"""`shardctl bench growth`: what one fire, one create and one takeover cost, by how many jobs are held.

Each number of jobs in fresh processes. A fire: CPU time in the shard from a due entry to its message, at
2,000 a second of its time, whatever is held. A create: one job, and a hundred, committed to a durable
PostgreSQL that already has so many; by the clock, and beside it a bare insert in turn. A takeover: the
partitions of one shard of three are loaded; by the clock and in CPU time for each job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
import trio

from shardwheel.bench.coldstart import fill, in_fresh_process
from shardwheel.bench.embedded import embedded_postgres
from shardwheel.bench.measure import machine, resident_bytes, spread
from shardwheel.bench.report import Panel, print_machine, print_table, save_picture
from shardwheel.bench.stored import TENANT, TOPIC_PARTITIONS, entries_of, hold
from shardwheel.partition import PARTITIONS
from shardwheel.ports import Message
from shardwheel.posting import parse_posting
from shardwheel.service import quieten_collector
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.intake import Intake
from shardwheel.store.jobs import create_jobs
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore

HELD: Final = (10_000, 100_000, 1_000_000, 3_000_000)
START_MS: Final = 1_795_003_200_000
TAKEN: Final = PARTITIONS // 3
_RATE_PER_S: Final = 2_000.0
_STEP_MS: Final = 100
_FIRES: Final = 20_000
_CREATES: Final = 60
_BATCH: Final = 100
_JOB: Final = {"task": "bench.noop", "params": {"n": 1}, "cron": "0 9 1 1 *", "time_zone": "Europe/Berlin"}
_BARE_TABLE: Final = b"CREATE TABLE IF NOT EXISTS bench_bare (id bigserial PRIMARY KEY, body jsonb)"
_BARE_INSERT: Final = b"INSERT INTO bench_bare (body) VALUES ('{}')"

Report = list[dict[str, Any]]
Say = Callable[[str], None]


def bench_growth(held: Sequence[int], say: Say) -> Report:
    report: Report = []
    with embedded_postgres(say) as dsn:
        stored = 0
        for count in sorted(held):
            say(f"{count:,} held: firing")
            row: dict[str, Any] = {"jobs": count, **in_fresh_process(fire_cost, count)}
            say(f"{count:,} held: storing")
            fill(dsn, count - stored, seed=len(report) + 1)
            stored = count
            say(f"{count:,} held: creating")
            row |= create_cost(dsn)
            say(f"{count:,} held: a takeover")
            row |= in_fresh_process(takeover_cost, dsn)
            report.append(row | {"machine": machine()})
    return report


def fire_cost(held: int) -> dict[str, float]:
    """CPU time a fire, and memory a job, in a fresh process."""
    before = resident_bytes()
    holdings = set(hold(entries_of(held, START_MS, _RATE_PER_S), START_MS).values())
    grown = resident_bytes() - before
    quieten_collector()
    fired, now_ms, begun_s = 0, START_MS, time.process_time()
    while fired < _FIRES:
        now_ms += _STEP_MS
        messages: list[Message] = []
        for holding in holdings:
            holding.due(now_ms, messages, [])
        fired += len(messages)
    return {
        "fire_us": round((time.process_time() - begun_s) / fired * 1e6, 3),
        "bytes_per_job": round(grown / held, 1),
    }


def create_cost(dsn: str) -> dict[str, float]:
    """Medians in ms: one job a commit, a hundred a commit, and a bare row a commit, in turn."""
    posting = parse_posting(_JOB)
    times_s: dict[str, list[float]] = {"create_ms": [], "create_100_ms": [], "bare_insert_ms": []}
    with psycopg.connect(dsn) as connection:
        connection.execute(_BARE_TABLE)
        connection.commit()
        steps: dict[str, Callable[[], object]] = {
            "create_ms": lambda: create_jobs(connection, TENANT, [posting]),
            "create_100_ms": lambda: create_jobs(connection, TENANT, [posting] * _BATCH),
            "bare_insert_ms": lambda: connection.execute(_BARE_INSERT),
        }
        for _ in range(_CREATES):
            for name, step in steps.items():
                begun_s = time.perf_counter()
                step()
                connection.commit()
                times_s[name].append(time.perf_counter() - begun_s)
    return {name: round(spread(each).median * 1000, 3) for name, each in times_s.items()}


class _Taken(NamedTuple):
    jobs: int
    seconds: float
    cpu_s: float


def takeover_cost(dsn: str) -> dict[str, float]:
    taken = trio.run(_take, dsn)
    return {
        "takeover_jobs": taken.jobs,
        "takeover_s": round(taken.seconds, 3),
        "takeover_us_per_job": round(taken.seconds / taken.jobs * 1e6, 2),
        "takeover_cpu_us_per_job": round(taken.cpu_s / taken.jobs * 1e6, 2),
    }


async def _take(dsn: str) -> _Taken:
    """As a shard without standbys takes over: its new partitions through the intake."""
    async with Pool(dsn, name="bench", size=2, limit_s=60.0) as pool:
        store = PostgresStore(pool)
        stand = Stand(int(await store.now_ms()), 1 << 62)
        begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
        holdings = await Intake(store, TOPIC_PARTITIONS).load(dict.fromkeys(range(TAKEN), stand))
        took_s, took_cpu_s = time.perf_counter() - begun_s, time.process_time() - begun_cpu_s
        return _Taken(sum(len(one) for one in set(holdings.values())), took_s, took_cpu_s)


_COLUMNS: Final = {
    "jobs": "held",
    "fire_us": "a fire, µs of CPU",
    "bytes_per_job": "bytes a job",
    "create_ms": "create one, ms",
    "create_100_ms": "create 100, ms",
    "bare_insert_ms": "bare insert, ms",
    "takeover_s": "takeover of a third, s",
    "takeover_us_per_job": "a job of it, µs",
}


def print_result(report: Report) -> None:
    rows = [[one[name] for name in _COLUMNS] for one in report]
    print_table("What one costs, by how many are held", list(_COLUMNS.values()), rows)
    print_machine(report[-1]["machine"])


def picture(report: Report, path: Path) -> None:
    held = [one["jobs"] for one in report]

    def panel(title: str, y_label: str, names: Sequence[str]) -> Panel:
        return Panel(
            title,
            "jobs held",
            y_label,
            held,
            {_COLUMNS[name]: [one[name] for one in report] for name in names},
        )

    save_picture(
        path,
        "What one costs, by how many are held",
        [
            panel("A fire", "µs", ["fire_us"]),
            panel("A create", "ms", ["create_ms", "create_100_ms", "bare_insert_ms"]),
            panel("A takeover", "µs a job", ["takeover_us_per_job"]),
            panel("Memory", "bytes a job", ["bytes_per_job"]),
        ],
    )
