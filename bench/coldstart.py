"""`shardctl bench coldstart`: how long a fresh shard takes from nothing to its first correct fire.

So many jobs of the mix are stored in PostgreSQL; then a fresh process takes all partitions through the
intake, as a shard without a standby does, and ticks until something is due. That fire is checked against
the job's own schedule. The reference is a process that only reads the same rows, and forgets them.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
import trio

from shardwheel.bench.embedded import embedded_postgres
from shardwheel.bench.measure import machine, resident_bytes
from shardwheel.bench.report import Panel, print_machine, print_table, save_picture
from shardwheel.bench.stored import TENANT, TOPIC_PARTITIONS, entries_of, store
from shardwheel.ids import fire_id
from shardwheel.partition import PARTITIONS
from shardwheel.ports import Message
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.shard.intake import Intake
from shardwheel.store.bulk import read_rows
from shardwheel.store.jobs import get_job, read_now_ms
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore
from shardwheel.store.sql import sql
from shardwheel.wire import decode_fire

JOBS: Final = (333_000, 1_000_000)
_PAUSE_S: Final = 0.004
_LIMIT_S: Final = 600.0

Report = list[dict[str, Any]]
Answer = TypeVar("Answer")


class Start(NamedTuple):
    """What one cold start took, and what the process grew by."""

    seconds: float
    cpu_seconds: float
    grown_bytes: int


def bench_coldstart(jobs: Sequence[int], seconds: float, say: Callable[[str], None]) -> Report:
    """Smaller numbers first: the jobs of the larger ones are added to those that are there. Each number is
    started cold once at least, and again as long as its share of the seconds lasts."""
    report: Report = []
    with embedded_postgres(say) as dsn:
        stored = 0
        for count in sorted(jobs):
            say(f"storing {count - stored:,} jobs")
            fill(dsn, count - stored, seed=len(report) + 1)
            stored = count
            report.append(measure_coldstart(dsn, count, seconds / len(jobs), say))
    return report


def fill(dsn: str, count: int, seed: int = 1) -> None:
    with psycopg.connect(dsn) as connection:
        now_ms = read_now_ms(connection)
    store(dsn, entries_of(count, now_ms, seed=seed))


def measure_coldstart(dsn: str, count: int, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """The median start, and the reading before each of them that goes with it."""
    starts: list[tuple[Start, float]] = []
    until_s = time.perf_counter() + seconds
    while not starts or time.perf_counter() < until_s:
        say(f"{count:,} jobs: reading alone, then cold start {len(starts) + 1}")
        copy_s = in_fresh_process(read_alone, dsn)
        starts.append((in_fresh_process(start_cold, dsn), copy_s))
    start, copy_s = sorted(starts)[len(starts) // 2]
    return {
        "jobs": count,
        "seconds": round(start.seconds, 3),
        "copy_seconds": round(copy_s, 3),
        "ratio": round(start.seconds / copy_s, 2),
        "rss_bytes_per_job": round(start.grown_bytes / count, 1),
        "cpu_seconds": round(start.cpu_seconds, 3),
        "starts_s": [round(one.seconds, 3) for one, _ in starts],
        "ratios": [round(one.seconds / read_s, 3) for one, read_s in starts],
        "machine": machine(),
    }


def in_fresh_process(work: Callable[[Any], Answer], argument: Any) -> Answer:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(work, argument).result()


# --- In the fresh process -----------------------------------------------------------------------------


def read_alone(dsn: str) -> float:
    """Seconds to read all rows in batches and forget them."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET transaction_timeout = 0")
        connection.commit()
        begun_s = time.perf_counter()
        for _ in read_rows(connection, sql("load_jobs"), {"partitions": list(range(PARTITIONS))}):
            pass
        return time.perf_counter() - begun_s


def start_cold(dsn: str) -> Start:
    gc.collect()
    before = resident_bytes()
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    holdings, fires = trio.run(_load_and_fire, dsn)
    took_s, took_cpu_s = time.perf_counter() - begun_s, time.process_time() - begun_cpu_s
    check_fires(dsn, fires)
    del fires
    gc.collect()
    return Start(took_s, took_cpu_s, resident_bytes() - before if holdings else 0)


async def _load_and_fire(dsn: str) -> tuple[Mapping[int, Holding], list[Message]]:
    """All partitions, from a watermark of just now; then tick until something fires."""
    async with Pool(dsn, name="bench", size=2, limit_s=60.0) as pool:
        store = PostgresStore(pool)
        stand = Stand(int(await store.now_ms()), 1 << 62)
        intake = Intake(store, TOPIC_PARTITIONS)
        holdings = await intake.load(dict.fromkeys(range(PARTITIONS), stand))
        fires: list[Message] = []
        with trio.fail_after(_LIMIT_S):
            while not fires:
                now_ms = int(await store.now_ms())
                for holding in set(holdings.values()):
                    holding.due(now_ms, fires, [])
                await trio.sleep(0 if fires else _PAUSE_S)
        return holdings, fires


def check_fires(dsn: str, fires: Sequence[Message]) -> None:
    """Is the first fire one that its job's schedule has, under the name that it must have?"""
    fire = decode_fire(fires[0].value)
    with psycopg.connect(dsn) as connection:
        job = get_job(connection, TENANT, fire.job_id)
    due = list(job.timing.times_between(fire.scheduled_ms - 1, fire.scheduled_ms))
    named = fire_id(job.job_id, job.partition, fire.scheduled_ms)
    if due != [fire.scheduled_ms] or fire.execution_id != named or fire.schedule_no != job.schedule_no:
        raise RuntimeError(f"the first fire is wrong: {fire}")


def print_result(report: Report) -> None:
    columns = ["jobs", "seconds", "copy_seconds", "ratio", "rss_bytes_per_job"]
    rows = [[one[name] for name in columns] for one in report]
    titles = ["jobs", "seconds to the first fire", "to read alone", "ratio", "bytes a job"]
    print_table("A cold start", titles, rows)
    print_machine(report[-1]["machine"])


def picture(report: Report, path: Path) -> None:
    jobs = [one["jobs"] for one in report]
    lines = {
        "cold start": [one["seconds"] for one in report],
        "reading alone": [one["copy_seconds"] for one in report],
    }
    title = "From nothing to the first correct fire"
    save_picture(path, title, [Panel("One shard, all partitions", "jobs", "s", jobs, lines)])
