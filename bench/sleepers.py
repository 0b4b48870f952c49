"""`shardctl bench sleepers`: one worker that holds many sleeping executions at once, and what that costs.

One shard, one worker with as many slots, one result processor, as `shardctl` runs them. One-shot jobs that
are all due at once sleep for longer than three heartbeats. Measured are the worker's memory before and
while all of them sleep, how long it took until they did, and the worker's CPU time while it only keeps them
alive. In the end all have succeeded, at their first attempt: no lease ran out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

from shardwheel.bench.embedded import Servers, embedded_servers
from shardwheel.bench.loop import Loop, open_loop
from shardwheel.bench.measure import machine
from shardwheel.bench.noop import SLEEP_S, SLEEPER
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.bench.stored import once_entries, store
from shardwheel.store.jobs import read_now_ms

SLEEPERS: Final = 10_000
# Beyond three heartbeats of the pool, and within the jobs' time-out of a minute.
SECONDS: Final = 45.0
_LIMIT_S: Final = 300.0
_LOOK_S: Final = 0.2
_COUNT: Final = (
    b"SELECT count(*), count(*) FILTER (WHERE attempt > 1) FROM shardwheel.executions WHERE state = %s"
)

Report = dict[str, Any]


def bench_sleepers(sleepers: int, seconds: float, say: Callable[[str], None]) -> Report:
    with embedded_servers(say) as servers:
        return measure_sleepers(servers, sleepers, seconds, say)


def measure_sleepers(servers: Servers, sleepers: int, seconds: float, say: Callable[[str], None]) -> Report:
    say("starting a shard, a worker, a result processor")
    environment = {SLEEP_S: str(seconds)}
    with open_loop(servers, ["--slots", str(sleepers)], **environment) as loop:
        with psycopg.connect(servers.dsn, autocommit=True) as connection:
            return _measure(loop, connection, servers.dsn, sleepers, seconds, say)


def _measure(
    loop: Loop,
    connection: psycopg.Connection[Any],
    dsn: str,
    sleepers: int,
    seconds: float,
    say: Callable[[str], None],
) -> Report:
    loop.play([0])  # All three are up and have met.
    idle_bytes = loop.resident_bytes("worker")
    say(f"{sleepers:,} sleepers")
    due_ms = read_now_ms(connection) + 3_000 + sleepers // 2
    store(dsn, once_entries(itertools.repeat(due_ms, sleepers), 7), triggers=True, task=SLEEPER)
    running_ms, _ = _until(connection, "running", sleepers)
    cpu_s, at = loop.cpu_s("worker"), time.monotonic()
    time.sleep(seconds * 0.8)
    cpu_share = (loop.cpu_s("worker") - cpu_s) / (time.monotonic() - at)
    full_bytes = loop.resident_bytes("worker")
    say("waking up")
    _, repeated = _until(connection, "succeeded", sleepers + 1)
    return {
        "sleepers": sleepers,
        "rss_bytes": full_bytes,
        "rss_bytes_idle": idle_bytes,
        "bytes_per_sleeper": round((full_bytes - idle_bytes) / sleepers),
        "all_running_s": round((running_ms - due_ms) / 1000, 2),
        "cpu_share_asleep": round(cpu_share, 3),
        "repeated": repeated,
        "machine": machine(),
    }


def _until(connection: psycopg.Connection[Any], state: str, count: int) -> tuple[int, int]:
    """Wait until so many are in a state; returns when that was, and how many of them were repeated."""
    deadline_s = time.monotonic() + _LIMIT_S
    while True:
        ((found, repeated),) = connection.execute(_COUNT, [state])
        if found >= count:
            return read_now_ms(connection), int(repeated)
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{found} of {count} executions are {state} after {_LIMIT_S:g} s")
        time.sleep(_LOOK_S)


_LABELS: Final = {
    "sleepers": "sleeping at once",
    "rss_bytes": "the worker's memory, bytes",
    "rss_bytes_idle": "  before, bytes",
    "bytes_per_sleeper": "  for each, bytes",
    "all_running_s": "due to all of them running, s",
    "cpu_share_asleep": "the worker's share of a core meanwhile",
    "repeated": "run again",
}


def print_result(result: Report) -> None:
    rows = [[label, result[name]] for name, label in _LABELS.items()]
    print_table("Sleepers in one worker", ["", ""], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    memory = {"before": result["rss_bytes_idle"] / 1e6, "asleep": result["rss_bytes"] / 1e6}
    save_picture(path, "Sleepers in one worker", [Bars("Memory of the worker", "MB", memory)])
