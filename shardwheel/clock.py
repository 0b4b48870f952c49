"""The database's clock, as a process knows it without asking: monotonic time plus a measured offset.

A sample is (sent, received, database time). The database read its clock between the two, so that

    database time − received  ≤  offset  ≤  database time − sent

Samples narrow this interval by intersection; between samples it widens, since two clocks may drift apart. So
a quick round trip counts for as long as it says more than a newer, slower one. A sample that does not meet
the interval says that a clock was set: from then on it alone counts.

    sent 10.000 s, received 10.004 s, database 70,003 ms  →  offset 59,999 … 60,003 ms, that is 60,001 ± 2

Shards use `reached_ms`, the lower end: the database's clock shows at least that, so nothing is fired early.
Neither time ever runs backwards: after a step back it stands still until the database has caught up. No wall
clock is read here, so setting one does nothing; and nothing of the edges is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

# How fast two clocks may part. NTP slews by at most 500 parts in a million, and quartz keeps better time.
DRIFT = 0.0005
SAMPLES = 5


class TellsTime(Protocol):
    """All that is asked of a store here."""

    async def now_ms(self) -> float: ...


class Sample(NamedTuple):
    """One question to the database: monotonic time before and after it, and the answer."""

    sent_s: float
    received_s: float
    database_ms: float


class Bounds(NamedTuple):
    """Between what the offset lies, in milliseconds."""

    low_ms: float
    high_ms: float

    def widened(self, by_ms: float) -> Bounds:
        return Bounds(self.low_ms - by_ms, self.high_ms + by_ms)

    def narrowed(self, other: Bounds) -> Bounds:
        """What both allow; the other alone if they exclude each other."""
        both = Bounds(max(self.low_ms, other.low_ms), min(self.high_ms, other.high_ms))
        return both if both.low_ms <= both.high_ms else other


class DatabaseClock:
    """`monotonic` is time.monotonic; in a simulation trio.current_time."""

    def __init__(self, monotonic: Callable[[], float], *, drift: float = DRIFT) -> None:
        self._monotonic = monotonic
        self._drift_ms_per_s = drift * 1000
        self._bounds: Bounds | None = None
        self._measured_at_s = 0.0
        self._shown_ms = float("-inf")
        self._shown_reached_ms = float("-inf")

    @property
    def is_measured(self) -> bool:
        return self._bounds is not None

    def now_ms(self) -> float:
        """The best estimate of the database's clock."""
        self._shown_ms = max(self._shown_ms, self._monotonic() * 1000 + self.offset_ms)
        return self._shown_ms

    def reached_ms(self) -> float:
        """What the database's clock has surely reached."""
        at_s = self._monotonic()
        self._shown_reached_ms = max(self._shown_reached_ms, at_s * 1000 + self._bounds_at(at_s).low_ms)
        return self._shown_reached_ms

    def reach(self, at_ms: float) -> None:
        """Another process saw that the database's clock had reached this time."""
        self._shown_reached_ms = max(self._shown_reached_ms, at_ms)

    @property
    def offset_ms(self) -> float:
        """Database time minus monotonic time: the middle of what is possible."""
        return sum(self._bounds_at(self._monotonic())) / 2

    @property
    def uncertainty_ms(self) -> float:
        """The offset is known to plus or minus this; it grows until the next sample."""
        bounds = self._bounds_at(self._monotonic())
        return (bounds.high_ms - bounds.low_ms) / 2

    def observe(self, sample: Sample) -> None:
        """Take in one sample, whose answer came just now."""
        here = Bounds(
            sample.database_ms - sample.received_s * 1000, sample.database_ms - sample.sent_s * 1000
        ).widened((sample.received_s - sample.sent_s) * self._drift_ms_per_s)
        known = self._bounds_at(sample.received_s) if self.is_measured else here
        self._bounds = known.narrowed(here)
        self._measured_at_s = sample.received_s

    async def run_once(self, store: TellsTime) -> None:
        """Measure: several questions, of which the quickest counts most. To be repeated every few seconds."""
        for _ in range(SAMPLES):
            sent_s = self._monotonic()
            database_ms = await store.now_ms()
            self.observe(Sample(sent_s, self._monotonic(), database_ms))

    def _bounds_at(self, at_s: float) -> Bounds:
        if self._bounds is None:
            raise RuntimeError("the database's clock was not measured yet: await run_once(store) first")
        return self._bounds.widened(abs(at_s - self._measured_at_s) * self._drift_ms_per_s)
