"""docs/scale.md: how much of everything 10 million, 100 million and 2 billion executions a day would take.

On paper: unit costs as measured, each part loaded to half, ten times the average at the peak. A unit cost
that no kept run has is an earlier one, taken by hand; the page says which is which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shardwheel.bench.report import Tabled, figure, markdown

DAYS: Final = (10_000_000, 100_000_000, 2_000_000_000)
_DAY_S: Final = 86_400
PEAK: Final = 10
FULL: Final = 0.5
# Jobs held, so that each runs about as often as people's do: 100,000 a minute of 10 million jobs.
EXECUTIONS_A_JOB: Final = 14.4
JOBS_A_SHARD: Final = 1_000_000
MESSAGES_A_TOPIC_PARTITION: Final = 10_000


class Unit(NamedTuple):
    """A measured unit cost, and where it is from."""

    value: float
    source: str


_EARLIER: Final = "earlier, by hand, 2 cores, 18 November 2026"


def units(runs: Mapping[str, dict[str, Any]]) -> dict[str, Unit]:
    """What one shard, one worker loop and one database do on the measured machine."""

    def of(name: str, figure_of: Any, otherwise: float) -> Unit:
        if name not in runs:
            return Unit(otherwise, _EARLIER)
        return Unit(
            float(figure_of(runs[name]["result"])), f"`{runs[name]['command']}`, {runs[name]['began_at']}"
        )

    return {
        "fires a second of one shard": of("fire", lambda one: one["fires_per_s"], 306_000),
        "claims a second of one connection": of("claim", lambda one: one["claims_per_s"]["500"], 29_229),
        "settles a second of one connection": of("claim", lambda one: one["settles_per_s"]["500"], 42_680),
        "executions a second of one whole loop on 2 cores": of("e2e", lambda one: one["per_s"], 12_392),
        "bytes of a shard for one job": of("growth", lambda one: one[-1]["bytes_per_job"], 255),
        "seconds to take over a third of the jobs": of("growth", lambda one: one[-1]["takeover_s"], 2.0),
    }


class Need(NamedTuple):
    """What a day's executions take."""

    a_day: int
    average_per_s: float
    peak_per_s: float
    jobs: int
    shards: int
    topic_partitions: int
    database_nodes: int
    loops: int


def need_of(a_day: int, unit: Mapping[str, Unit]) -> Need:
    average = a_day / _DAY_S
    peak = average * PEAK
    jobs = round(a_day / EXECUTIONS_A_JOB)
    fires = unit["fires a second of one shard"].value * FULL
    claims = unit["claims a second of one connection"].value
    settles = unit["settles a second of one connection"].value
    # Each execution is claimed once and settled once, on the same node.
    node = FULL / (1 / claims + 1 / settles)
    loop = unit["executions a second of one whole loop on 2 cores"].value * FULL
    return Need(
        a_day,
        average,
        peak,
        jobs,
        max(3, math.ceil(peak / fires), math.ceil(jobs / JOBS_A_SHARD)),
        _next_power(max(8, math.ceil(peak / MESSAGES_A_TOPIC_PARTITION))),
        math.ceil(peak / node),
        math.ceil(peak / loop),
    )


def _next_power(count: int) -> int:
    return 1 << (count - 1).bit_length()


def scale_page(runs: Mapping[str, dict[str, Any]], template: str) -> str:
    unit = units(runs)
    costs = Tabled(
        "Unit costs",
        ["", "measured", "from"],
        [[name, figure(one.value), one.source] for name, one in unit.items()],
    )
    columns = [
        "executions a day",
        "average/s",
        "peak/s",
        "jobs",
        "shards",
        "topic partitions a topic",
        "database nodes",
        "worker and result loops",
    ]
    rows = [[figure(cell) for cell in need_of(a_day, unit)] for a_day in DAYS]
    return template.format(
        costs=markdown(costs),
        needs=markdown(Tabled("What it takes", columns, rows)),
        peak=PEAK,
        full=round(FULL * 100),
        a_job=EXECUTIONS_A_JOB,
        a_shard=JOBS_A_SHARD,
        a_partition=MESSAGES_A_TOPIC_PARTITION,
        growth=_growth(runs),
    )


def _growth(runs: Mapping[str, dict[str, Any]]) -> str:
    if "growth" not in runs:
        return "No run of `shardctl bench growth` is kept yet: `make bench-all` makes one.\n"
    names = {
        "jobs": "held",
        "fire_us": "a fire, µs of CPU",
        "create_ms": "a create, ms",
        "takeover_us_per_job": "a job taken over, µs",
        "bytes_per_job": "bytes a job",
    }
    report = runs["growth"]["result"]
    rows = [[figure(one[name]) for name in names] for one in report]
    least, most = report[0], report[-1]
    change = ", ".join(
        f"{label} {most[name] / least[name]:.2f} ×" for name, label in names.items() if name != "jobs"
    )
    told = f"From {least['jobs']:,} to {most['jobs']:,} held: {change}.\n"
    return (
        str(markdown(Tabled("What one costs, by how many are held", list(names.values()), rows)))
        + "\n"
        + told
    )
