"""`shardctl bench holds`: what a flood of held executions costs everybody else.

A shard, a worker and a result processor as `shardctl` runs them. Rounds of no-op jobs that are due at once
give the rate. Then some jobs of a task that always fails: its breaker opens by itself, and as many more of
them as asked for are held. The same rounds again, while they are: the ratio of the two medians is the answer.
A probe a minute fails too, so the breaker stays open throughout.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

from shardwheel.bench.embedded import Servers, embedded_servers
from shardwheel.bench.loop import LIMIT_S, Loop, open_loop
from shardwheel.bench.measure import machine
from shardwheel.bench.noop import BROKEN
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.bench.stored import once_entries, store
from shardwheel.store.jobs import read_now_ms

HELD: Final = 100_000
JOBS: Final = 20_000
ROUNDS: Final = 5
_FAILING: Final = 40
_LOOK_S: Final = 0.5
_COUNT_HELD: Final = b"""
SELECT count(*) FROM shardwheel.executions WHERE pending = 'held' AND reason = 'breaker_open'"""
_IS_OPEN: Final = b"SELECT count(*) FROM shardwheel.task_breakers WHERE open_until > clock_timestamp()"

Report = dict[str, Any]


def bench_holds(held: int, jobs: int, rounds: int, say: Callable[[str], None]) -> Report:
    with embedded_servers(say) as servers:
        return measure_holds(servers, held, jobs, rounds, say)


def measure_holds(servers: Servers, held: int, jobs: int, rounds: int, say: Callable[[str], None]) -> Report:
    with open_loop(servers) as loop:
        say("starting a shard, a worker, a result processor")
        loop.play([0])
        say(f"{rounds} times {jobs:,} jobs at once, nothing held")
        without = _rates(loop, jobs, rounds)
        say(f"{held:,} jobs of a task that fails")
        stays = _flood(servers.dsn, held)
        say(f"{rounds} times {jobs:,} jobs at once, {stays:,} held")
        beside = _rates(loop, jobs, rounds)
        with psycopg.connect(servers.dsn) as connection:
            stays = min(stays, _ask(connection, _COUNT_HELD))
    return {
        "held": stays,
        "per_s": round(statistics.median(without), 1),
        "per_s_beside_held": round(statistics.median(beside), 1),
        "ratio": round(statistics.median(beside) / statistics.median(without), 3),
        "rounds": {"without": [round(one) for one in without], "beside": [round(one) for one in beside]},
        "machine": machine(),
    }


def _rates(loop: Loop, jobs: int, rounds: int) -> list[float]:
    return [jobs / loop.play(itertools.repeat(0, jobs)).took_s for _ in range(rounds)]


def _flood(dsn: str, held: int) -> int:
    """Let the breaker open, then make the flood due, and wait until all of it is held."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        _store_failing(connection, dsn, _FAILING, seed=7_776)
        _until(connection, _IS_OPEN, 1)
        _store_failing(connection, dsn, held, seed=7_777)
        return _until(connection, _COUNT_HELD, held)


def _store_failing(connection: psycopg.Connection[Any], dsn: str, count: int, seed: int) -> None:
    due_ms = read_now_ms(connection) + 3_000 + count // 2
    store(dsn, once_entries(itertools.repeat(due_ms, count), seed), triggers=True, task=BROKEN)


def _until(connection: psycopg.Connection[Any], question: bytes, least: int) -> int:
    """Ask until the answer is large enough, or the limit has passed."""
    deadline_s = time.monotonic() + LIMIT_S
    while (count := _ask(connection, question)) < least and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)
    return count


def _ask(connection: psycopg.Connection[Any], question: bytes) -> int:
    ((count,),) = connection.execute(question)
    return int(count)


def print_result(result: Report) -> None:
    rows = [
        ["executions a second, nothing held", result["per_s"]],
        ["  beside what is held", result["per_s_beside_held"]],
        ["ratio", result["ratio"]],
    ]
    print_table(f"A flood of {result['held']:,} held executions", ["", ""], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    rates = {"nothing held": result["per_s"], f"{result['held']:,} held": result["per_s_beside_held"]}
    save_picture(path, "What is held delays nobody", [Bars("Executions a second", "due to settled", rates)])
