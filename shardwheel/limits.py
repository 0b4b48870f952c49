"""What holds for all jobs of one task type: limits, the breaker, the tenant's retry budget. Pure values.

A rate is written as people say it, `100/min`, and kept as tokens a second. Its bucket holds what comes in two
seconds, the time between two sweeps: a minute sees a hundred starts and at most a few more, never a burst of
a hundred on top.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from shardwheel.times import refuse

# The breaker of a task type opens when so many of its runs failed, and looks again after a minute.
BREAKER_SHARE = 0.5
BREAKER_RUNS = 20
BREAKER_OPEN_S = 60
# Over this time runs are counted, for the breaker and for a tenant's retries.
# Whoever tells tallies has rows of its own, by chance: two on one lane only wait for each other.
LANES = 1_000
WINDOW_S = 300
# A tenant's retries may be so many times its first attempts; some are always allowed, or a lone job that
# fails three times would be given up after two.
RETRIES_PER_FIRST = 2
RETRIES_ALWAYS = 20

MOST_RUNNING = 10_000
_UNITS_S = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([a-z]+)")


class TaskName(NamedTuple):
    tenant_id: str
    task: str


class Tally(NamedTuple):
    """How runs of a task type ended: runs, failures among them, first attempts, and retries granted."""

    runs: int = 0
    failures: int = 0
    firsts: int = 0
    retries: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(*(mine + more for mine, more in zip(self, other, strict=True)))


def add_tallies(counted: dict[TaskName, Tally], more: Mapping[TaskName, Tally]) -> None:
    for name, tally in more.items():
        counted[name] = counted.get(name, Tally()).plus(tally)


def is_budget_spent(firsts: int, retries: int) -> bool:
    """Whether a tenant has had all the retries that its first attempts allow."""
    return retries >= max(RETRIES_ALWAYS, RETRIES_PER_FIRST * firsts)


class WorkerCard(NamedTuple):
    """What a worker says of itself."""

    worker_id: str
    pool: str
    tasks: tuple[str, ...]
    slots: int
    address: str


class TaskType(NamedTuple):
    """A task type as people see it; None: no such limit."""

    task: str
    paused: bool
    max_running: int | None
    rate_per_s: float | None
    burst: int | None
    breaker: bool
    breaker_open_until_ms: int | None
    slots_taken: int | None
    held: int


def parse_rate(text: Any) -> float:
    """Tokens a second of `100/min`."""
    matched = _RATE.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    unit_s = _UNITS_S.get(matched[2]) if matched else None
    if matched is None or unit_s is None:
        refuse("rate", f"{text!r} is not a rate", "write a number and a unit, such as 100/min, 5/s or 1000/h")
    per_s = float(matched[1]) / unit_s
    if not 0 < per_s <= 1_000_000:
        refuse("rate", f"{text!r} is out of range", "give more than none and at most 1,000,000 a second")
    return per_s


def burst_of(rate_per_s: float) -> int:
    return max(1, math.ceil(2 * rate_per_s))


def check_max_running(max_running: int) -> int:
    if not 1 <= max_running <= MOST_RUNNING:
        refuse(
            "max_running", f"{max_running} is out of range", f"give 1 to {MOST_RUNNING}; pause it to run none"
        )
    return max_running
