"""`shardctl bench quick`: today's ratios beside the committed ones, in under five minutes.

Only ratios of two things measured in one run: a machine's mood moves both. Each is written so that more is
better; one that falls by more than 30% fails the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shardwheel.bench.claim import bench_claim
from shardwheel.bench.coldstart import bench_coldstart
from shardwheel.bench.e2e import bench_e2e
from shardwheel.bench.fire import bench_fire
from shardwheel.bench.measure import machine, spread
from shardwheel.bench.report import print_machine, print_table
from shardwheel.bench.wheel import bench_wheel

BASELINE: Final = Path(__file__).resolve().parent / "baseline.json"
MOST_FALLEN: Final = 0.3
_HELD: Final = (10_000, 100_000)
_COLD_JOBS: Final = 50_000
_E2E_JOBS: Final = 5_000
_COLD_S: Final = 25.0

Report = dict[str, Any]
Say = Callable[[str], None]


def bench_quick(say: Say, *, write: bool = False, baseline: Path = BASELINE) -> Report:
    today = measure_ratios(say)
    if write:
        baseline.write_bytes(msgspec.json.format(msgspec.json.encode(today | {"machine": machine()})) + b"\n")
    before = msgspec.json.decode(baseline.read_bytes(), type=dict[str, Any]) if baseline.exists() else {}
    return {**compare(today, before), "machine": machine()}


def measure_ratios(say: Say) -> dict[str, float]:
    wheel = bench_wheel(8.0, say, held=_HELD)
    fire = bench_fire(30.0, say, shards=(1,))
    claim = bench_claim(10.0, say)
    (cold,) = bench_coldstart([_COLD_JOBS], _COLD_S, say)
    e2e = bench_e2e(_E2E_JOBS, 3.0, say, kill=())
    largest = str(_HELD[-1])
    steps = wheel["cron_next_us"]
    return {
        "cron step: croniter to ours": round(steps["croniter"] / steps["ours"], 3),
        "wheel: heapq pop to advance": round(
            wheel["heapq"]["pop_us"][largest] / wheel["advance_us_per_due"][largest], 3
        ),
        "wheel: advance, few held to many": round(
            wheel["advance_us_per_due"][str(_HELD[0])] / wheel["advance_us_per_due"][largest], 3
        ),
        "fire: ours to bare produce": fire["ratio"],
        "claim of 500 to bare inserts": _ratio(claim, "claims_per_s"),
        "settle of 500 to bare inserts": _ratio(claim, "settles_per_s"),
        "cold start: reading alone to all": round(1 / spread(cold["ratios"]).median, 3),
        "end to end to raw SQL": e2e["ratio"],
    }


def _ratio(claim: Mapping[str, Any], name: str) -> float:
    return round(float(claim[name]["500"] / claim["bare_inserts_per_s"]["500"]), 3)


def compare(today: Mapping[str, float], before: Mapping[str, Any]) -> Report:
    """By name today's ratio, the baseline's, and their quotient; and those that fell too far."""
    ratios = {
        name: {
            "today": now,
            "baseline": before.get(name),
            "change": round(now / before[name], 3) if before.get(name) else None,
        }
        for name, now in today.items()
    }
    fallen = [
        name for name, one in ratios.items() if one["change"] is not None and one["change"] < 1 - MOST_FALLEN
    ]
    return {"ratios": ratios, "fallen": fallen}


def print_result(result: Report) -> None:
    rows: list[list[object]] = [
        [name, one["today"], _or_dash(one["baseline"]), _or_dash(one["change"]), _verdict(name, result)]
        for name, one in result["ratios"].items()
    ]
    print_table("Ratios: more is better", ["", "today", "baseline", "today / baseline", ""], rows)
    print_machine(result["machine"])


def _or_dash(value: float | None) -> object:
    return "–" if value is None else value


def _verdict(name: str, result: Report) -> str:
    return "FALLEN by more than 30%" if name in result["fallen"] else ""
