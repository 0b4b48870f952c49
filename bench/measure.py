"""How the benchmarks measure: repeated, seeded, with the machine described beside the figures.

Three habits, so that figures can be compared and believed:

- What a machine's mood can move is measured several times and told as a median with its spread, or set
  beside a reference from the same run.
- A latency is counted from when a thing was *meant* to happen, not from when the benchmark came round to
  it: whoever is stalled for a second must see a second in the figures for everything that was due in
  it (the other way is known as coordinated omission, and hides exactly the stalls).
- Latencies go into a histogram of fixed relative precision: a million of them cost a few kilobytes, and
  the histograms of several processes can be added up.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from resource import getpagesize
from time import thread_time_ns
from typing import Any, Final, NamedTuple

from shardwheel.bench.versions import versions


class Spread(NamedTuple):
    """Of several measurements of the same thing: the median, the smallest and the largest."""

    median: float
    low: float
    high: float


def spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    return Spread(statistics.median(ordered), ordered[0], ordered[-1])


def repeat(times: int, measure: Callable[[], float]) -> Spread:
    """Measure so many times."""
    return spread(measure() for _ in range(times))


def microseconds_each(count: int, work: Callable[[], object]) -> float:
    """How much CPU time one of `count` steps takes, when `work` does all of them and waits for nothing."""
    begun_ns = thread_time_ns()
    work()
    return (thread_time_ns() - begun_ns) / count / 1000


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was then."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_1_min": round(os.getloadavg()[0], 2),
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "versions": versions(),
    }


def resident_bytes(pid: int | str = "self") -> int:
    """Memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * getpagesize()


def cpu_s(pid: int) -> float:
    """CPU time of a process, its own and the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if sys.platform == "linux" and cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class Latencies:
    """A histogram of latencies in ms with a relative error below 1.6%.

    Each power of two of microseconds is cut into 64 equal buckets. What is early counts as 0: that is for
    the caller to count, if it may not happen.
    """

    _CUTS = 64

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        self._buckets: dict[int, int] = {}

    def record(self, latency_ms: float, times: int = 1) -> None:
        """Count a latency, from when the thing was meant to happen."""
        latency_us = max(0, int(latency_ms * 1000))
        bucket = self._bucket(latency_us)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times
        self.count += times
        self.max_ms = max(self.max_ms, latency_ms)

    def add(self, other: Latencies) -> None:
        """Add up with another process's."""
        for bucket, times in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + times
        self.count += other.count
        self.max_ms = max(self.max_ms, other.max_ms)

    def percentile_ms(self, percent: float) -> float:
        """The latency that so many percent do not exceed; 0 if nothing was recorded."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(self._upper_us(bucket) / 1000, self.max_ms)
        return self.max_ms

    def histogram(self) -> list[tuple[float, int]]:
        """(upper end in ms, how many), two bars for each doubling: fine enough to be drawn."""
        bars: dict[float, int] = {}
        for bucket, times in sorted(self._buckets.items()):
            upper_ms = _bar_ms(self._upper_us(bucket))
            bars[upper_ms] = bars.get(upper_ms, 0) + times
        return list(bars.items())

    def _bucket(self, latency_us: int) -> int:
        # Below 128 µs every microsecond has its own; above, the 7 leading bits choose.
        power = max(0, latency_us.bit_length() - 7)
        return power * self._CUTS + (latency_us >> power)

    def _upper_us(self, bucket: int) -> int:
        """The largest latency that falls into a bucket."""
        power = max(0, bucket // self._CUTS - 1)
        return ((bucket - power * self._CUTS + 1) << power) - 1


_BARS_A_DOUBLING: Final = 2


def _bar_ms(latency_us: int) -> float:
    """The upper end of the bar that a latency falls into."""
    steps = math.ceil(math.log2(max(1, latency_us)) * _BARS_A_DOUBLING)
    return float(f"{2 ** (steps / _BARS_A_DOUBLING) / 1000:.4g}")
