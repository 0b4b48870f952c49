"""`shardctl bench isolated`: what a start of an isolated handler costs.

One attempt after the other through a worker's own edge, with all limits and a network of its own: the
*start* is from the call to the handler's first line, the *run* until nothing is left of it. The reference, in
turn with them, is what there would be without a fork server: Python started anew, with the same module.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from shardwheel.bench.measure import Latencies, machine
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.execution import Claimed
from shardwheel.isolation import Limits
from shardwheel.service import Health
from shardwheel.workers.children import InChild
from shardwheel.workers.isolated import Isolation

RUNS: Final = 300
# Not imported here: it would register its handler with every process that has a `bench` command.
MODULE: Final = "shardwheel.bench.isolated_noop"
TASK: Final = "bench.isolated"
# Python anew takes long, and varies little.
_RUNS_A_REFERENCE: Final = 10
_CLAIMED: Final = Claimed(bytes(16), bytes(16), 0, "bench", TASK, b"null", 0, 0, 1, 0, 60_000, b"")

Report = dict[str, Any]


class _NoDesk:
    """Nobody keeps what a benchmark's handler says (`context.Desk`)."""

    def progress(self, claimed: Claimed, percent: float, note: str) -> None: ...

    def log(self, claimed: Claimed, level: str, text: str) -> None: ...

    async def checkpoint(self, claimed: Claimed, data: bytes) -> None: ...

    async def load_checkpoint(self, claimed: Claimed) -> bytes:
        return b"null"

    async def load_inputs(self, claimed: Claimed) -> bytes:
        return b'{"outputs": {}, "skipped_parents": []}'


def bench_isolated(runs: int, say: Callable[[str], None]) -> Report:
    return trio.run(_measure, runs, say)


async def _measure(runs: int, say: Callable[[str], None]) -> Report:
    starts, whole, anew = Latencies(), Latencies(), Latencies()
    isolation = Isolation(MODULE, Health())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(isolation.run)
        say("starting a fork server")
        await _run_one(isolation, Latencies(), Latencies())
        for number in range(runs):
            await _run_one(isolation, starts, whole)
            if number % _RUNS_A_REFERENCE == 0:
                say(f"{number} of {runs} runs")
                _start_anew(anew)
        nursery.cancel_scope.cancel()
    return _report(runs, starts, whole, anew) | {"warnings": isolation.warnings, "machine": machine()}


async def _run_one(isolation: Isolation, starts: Latencies, whole: Latencies) -> None:
    child = InChild(_CLAIMED, _NoDesk(), (), lambda: False)
    called_at = time.monotonic()
    end = await isolation.call(child.order(Limits(), None, 60.0, 5.0), child)
    ended_at = time.monotonic()
    began_at: float = msgspec.json.decode(end.output)
    starts.record((began_at - called_at) * 1000)
    whole.record((ended_at - called_at) * 1000)


def _start_anew(anew: Latencies) -> None:
    begun_at = time.monotonic()
    subprocess.run([sys.executable, "-c", f"import {MODULE}"], check=True)
    anew.record((time.monotonic() - begun_at) * 1000)


def _report(runs: int, starts: Latencies, whole: Latencies, anew: Latencies) -> Report:
    p50_ms = starts.percentile_ms(50)
    return {
        "runs": runs,
        "start_p50_ms": p50_ms,
        "start_p99_ms": starts.percentile_ms(99),
        "start_max_ms": starts.max_ms,
        "run_p50_ms": whole.percentile_ms(50),
        "run_p99_ms": whole.percentile_ms(99),
        "python_anew_p50_ms": anew.percentile_ms(50),
        "ratio": p50_ms / anew.percentile_ms(50),
    }


def print_result(result: Report) -> None:
    rows = [
        ("start: call to first line", result["start_p50_ms"], result["start_p99_ms"]),
        ("run: call to nothing left", result["run_p50_ms"], result["run_p99_ms"]),
        ("Python started anew", result["python_anew_p50_ms"], ""),
    ]
    print_table(f"isolated no-op, {result['runs']} runs", ["", "p50 ms", "p99 ms"], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    names = {
        "start_p50_ms": "start p50",
        "start_p99_ms": "start p99",
        "python_anew_p50_ms": "Python anew p50",
    }
    bars = {name: float(result[field]) for field, name in names.items()}
    save_picture(path, "Isolated handlers", [Bars("A no-op", "ms", bars)])
