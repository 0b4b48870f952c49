"""The work that every peer gets, and how it is judged: pure, so that it is the same for all and can be
tested.

A job is a number. What runs notes (number, moment) when it starts (notes.py); when it was due follows from
the number alone. So lateness counts from the schedule, and what never started counts as late as the run is
long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shardwheel.bench.measure import Latencies

ROWS: Final = ("herd", "pace", "recurring", "restart", "once", "repeated")
# As the issue names them, for `--only`.
LETTERS: Final = {
    "a": ("herd",),
    "b": ("pace",),
    "c": ("recurring",),
    "d": ("restart",),
    "e": ("once", "repeated"),
}
MINUTE_S: Final = 60
# A clock of another process may be so much behind ours.
_EARLY_S: Final = 0.05


class Once(NamedTuple):
    """A job that is due at one moment."""

    number: int
    due_s: float


class Plan(NamedTuple):
    """A recurring job: due whenever the time since 1970 is `phase_s` into a period."""

    number: int
    period_s: int
    phase_s: int

    @property
    def cron(self) -> str:
        """With the second in the sixth field, where croniter reads it."""
        return f"{self.minutes} * * * * {self.phase_s % MINUTE_S}"

    @property
    def minutes(self) -> str:
        """The minutes of an hour in which it is due, as a cron's field."""
        if self.period_s == MINUTE_S:
            return "*"
        return ",".join(str(at_s // MINUTE_S) for at_s in range(self.phase_s, 3600, self.period_s))

    @property
    def cron_seconds_first(self) -> str:
        fields = self.cron.split()
        return " ".join([fields[5], *fields[:5]])

    def next_s(self, after_s: float) -> int:
        """The first due moment after this one."""
        periods = int((after_s - self.phase_s) // self.period_s) + 1
        return periods * self.period_s + self.phase_s


class Size(NamedTuple):
    """How much of everything, at full scale as the issue says."""

    herd: int = 20_000
    pace_per_s: int = 100
    pace_s: float = 20.0
    recurring: tuple[int, ...] = (1_000, 10_000, 100_000)
    window_s: float = 20.0
    limit_s: float = 120.0

    def scaled(self, scale: float) -> Size:
        return self._replace(
            herd=max(20, round(self.herd * scale)),
            pace_s=max(2.0, self.pace_s * min(1.0, scale * 5)),
            recurring=tuple(max(10, round(count * scale)) for count in self.recurring),
            window_s=max(5.0, self.window_s * min(1.0, scale * 5)),
        )


def plans_of(count: int) -> list[Plan]:
    """Recurring jobs, spread evenly: each minute up to 1,000, each ten minutes up to 10,000, then hourly.
    So about 17 to 28 of them are due in a second, whatever their number."""
    period_s = 60 if count <= 1_000 else 600 if count <= 10_000 else 3600
    return [Plan(number, period_s, number * period_s // count) for number in range(count)]


def minutely(count: int) -> list[Plan]:
    """Recurring jobs that are all due at the same moment: the top of each minute."""
    return [Plan(number, MINUTE_S, 0) for number in range(count)]


def dues_of(plans: Iterable[Plan], from_s: float, to_s: float) -> list[Once]:
    """All due moments in [from, to)."""
    dues = []
    for plan in plans:
        at_s = plan.next_s(from_s - 0.001)
        while at_s < to_s:
            dues.append(Once(plan.number, at_s))
            at_s += plan.period_s
    return dues


class Lateness(NamedTuple):
    latencies: Latencies
    missed: int


def lateness_of(dues: Sequence[Once], starts: Iterable[tuple[int, float]], end_s: float) -> Lateness:
    """From each due moment to the first start of its job since; until the end, if there is none."""
    by_number: Mapping[int, list[float]] = _by_number(starts)
    latencies, missed = Latencies(), 0
    for number, due_s in dues:
        started_s = min(
            (at_s for at_s in by_number.get(number, ()) if at_s >= due_s - _EARLY_S), default=None
        )
        missed += started_s is None
        latencies.record(((end_s if started_s is None else started_s) - due_s) * 1000)
    return Lateness(latencies, missed)


def _by_number(starts: Iterable[tuple[int, float]]) -> Mapping[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for number, at_s in starts:
        found[number].append(at_s)
    return found


def rows_of(only: str) -> tuple[str, ...]:
    """The rows that `--only a,once` asks for, by letter or by name, in their order."""
    known = LETTERS | {row: (row,) for row in ROWS}
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no row: there are {', '.join(known)}")
    wanted = {row for name in names for row in known[name]} if names else set(ROWS)
    return tuple(row for row in ROWS if row in wanted)


def unfinished(limit_s: float, done: int, count: int, what: str) -> str:
    """How a row that ran out of time is told."""
    return f"did not finish within {limit_s:g} s: {done:,} of {count:,} {what}"


Row = dict[str, Any]
