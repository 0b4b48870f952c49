"""When a job runs: a pure function of its schedule and a time. Never reads a clock.

A `Schedule` is shared by all jobs that have the same one, and remembers its last answer; what belongs
to one job is passed in: `anchor_ms` (the time of a once; what an interval counts from) and the bounds
(see `timing`). Its `text` is what the jobs table stores; `schedule_of(text)` gives the shared object
back.

Times are integer milliseconds since 1970 UTC, from 1970 to the end of 2200.

Example:

    nine = schedule_of('{"cron":"0 9 * * 1-5","time_zone":"Europe/Berlin"}')
    nine.next_after(1_793_000_000_000)     # the first 09:00 on a weekday in Berlin after that moment
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Final, Literal
from weakref import WeakValueDictionary

import msgspec

from shardwheel.cron import canonical_expression, compile_cron
from shardwheel.errors import UsageError
from shardwheel.zone import DAY_S, DstFold, DstGap, wall_clock, wall_day

END_MS: Final = 7_289_654_400_000  # 2201-01-01T00:00:00Z: nothing is scheduled from here on

Kind = Literal["cron", "every", "once", "none"]


class Definition(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a schedule is made of, in the order in which its text spells it. No cron and no interval:
    a once, or with `never` a job that runs only by trigger or as a task."""

    cron: str | None = None
    every_ms: int | None = None
    never: bool = False
    time_zone: str = "UTC"
    dst_gap: DstGap = "shift"
    dst_fold: DstFold = "first"
    exclude: tuple[date, ...] = ()


class Schedule(ABC):
    """A schedule without what belongs to one job. Shared: see `schedule_of`."""

    __slots__ = ("__weakref__", "definition", "text")
    kind: ClassVar[Kind]

    def __init__(self, definition: Definition, text: str) -> None:
        self.definition = definition
        self.text = text

    @abstractmethod
    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        """The first time strictly after this one; None when there is none before 2201."""

    def times_between(self, after_ms: int, through_ms: int, anchor_ms: int = 0) -> Iterator[int]:
        """The times with after_ms < time <= through_ms, in order, computed as they are asked for."""
        time_ms = self.next_after(after_ms, anchor_ms)
        while time_ms is not None and time_ms <= through_ms:
            yield time_ms
            time_ms = self.next_after(time_ms, anchor_ms)

    def nth_after(self, after_ms: int, n: int, anchor_ms: int = 0) -> int | None:
        """The n-th time (1, 2, …) strictly after this one; None when there are fewer."""
        time_ms: int | None = after_ms
        for _ in range(n):
            if time_ms is None:
                return None
            time_ms = self.next_after(time_ms, anchor_ms)
        return time_ms

    def count_between(self, after_ms: int, through_ms: int, anchor_ms: int = 0) -> int:
        """How many times `times_between` would give."""
        return sum(1 for _ in self.times_between(after_ms, through_ms, anchor_ms))


class CronSchedule(Schedule):
    __slots__ = ("_clock", "_cron", "_excluded", "_memo", "_span")
    kind = "cron"

    def __init__(self, definition: Definition, text: str) -> None:
        super().__init__(definition, text)
        assert definition.cron is not None
        self._cron = compile_cron(definition.cron)
        if self._cron.follows_elapsed_time:
            self._clock = wall_clock(definition.time_zone, "skip", "both")
        else:
            self._clock = wall_clock(definition.time_zone, definition.dst_gap, definition.dst_fold)
        self._excluded = Exclusions.of(definition)
        self._span = self._clock.span_at(0)
        # For every time from the first to before the second, the next one is the second.
        self._memo = (0, 0)

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        known_from_ms, next_ms = self._memo
        if not known_from_ms <= after_ms < next_ms:
            next_ms = self._find(after_ms)
            self._memo = (after_ms, next_ms)
        return next_ms if next_ms < END_MS else None

    def _find(self, after_ms: int) -> int:
        next_ms = self._search(after_ms // 1000 + 1) * 1000
        if self._excluded is not None:
            while (resumes_ms := self._excluded.end_around(next_ms)) is not None:
                next_ms = self._search(-(-resumes_ms // 1000)) * 1000
        return next_ms

    def _search(self, from_s: int) -> int:
        """The first time in seconds at or after `from_s`; at or past the end of all time: none."""
        if from_s >= END_MS // 1000:
            return from_s
        span = self._span
        if not span[0] <= from_s < span[1]:
            span = self._span = self._clock.span_at(max(from_s, 0))
        while True:
            _, until_s, shift_s, wall_from_s, wall_to_s = span
            wall_s = self._cron.next_wall(max(from_s + shift_s, wall_from_s))
            if wall_s < wall_to_s:
                return min(wall_s - shift_s, until_s)
            if until_s * 1000 >= END_MS:
                return END_MS // 1000
            from_s = until_s
            span = self._span = self._clock.span_at(until_s)


class EverySchedule(Schedule):
    """Anchored: the times are anchor + k × interval, however late somebody looks."""

    __slots__ = ("_every_ms", "_excluded")
    kind = "every"

    def __init__(self, definition: Definition, text: str) -> None:
        super().__init__(definition, text)
        assert definition.every_ms is not None
        self._every_ms = definition.every_ms
        self._excluded = Exclusions.of(definition)

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        next_ms = after_ms + self._every_ms - (after_ms - anchor_ms) % self._every_ms
        if self._excluded is not None:
            while (resumes_ms := self._excluded.end_around(next_ms)) is not None:
                next_ms = resumes_ms + (anchor_ms - resumes_ms) % self._every_ms
        return next_ms if next_ms < END_MS else None


class OnceSchedule(Schedule):
    """One time, which is the job's anchor: so all onces share one object."""

    __slots__ = ()
    kind = "once"

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        return anchor_ms if after_ms < anchor_ms < END_MS else None


class NoSchedule(Schedule):
    """A job that runs only when somebody triggers it, or as a task of a DAG."""

    __slots__ = ()
    kind = "none"

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        return None


class Exclusions:
    """Dates on which nothing runs, as stretches of time in the schedule's own zone."""

    __slots__ = ("_ends_ms", "_starts_ms")

    def __init__(self, days: list[int], time_zone: str) -> None:
        clock = wall_clock(time_zone, "shift", "first")
        self._starts_ms = [clock.utc_of(day * DAY_S) * 1000 for day in days]
        self._ends_ms = [clock.utc_of((day + 1) * DAY_S) * 1000 for day in days]

    @classmethod
    def of(cls, definition: Definition) -> Exclusions | None:
        if not definition.exclude:
            return None
        return cls([wall_day(day) for day in definition.exclude], definition.time_zone)

    def end_around(self, time_ms: int) -> int | None:
        """When the excluded date that this time falls on is over; None when it falls on none."""
        index = bisect_right(self._starts_ms, time_ms) - 1
        return self._ends_ms[index] if index >= 0 and time_ms < self._ends_ms[index] else None


# --- Text and sharing -------------------------------------------------------------------------------

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Definition)
# Whoever holds a schedule keeps it shared; when nobody does, it goes. The small cache in front makes the
# common case quick, and keeps a service compiling once that holds none.
_shared: Final[WeakValueDictionary[str, Schedule]] = WeakValueDictionary()


@lru_cache(maxsize=4096)
def schedule_of(text: str) -> Schedule:
    """The shared schedule of this text, as `Schedule.text` or the jobs table has it."""
    schedule = _shared.get(text)
    if schedule is None:
        schedule = _shared[text] = _build(text)
    return schedule


def schedule_from(definition: Definition) -> Schedule:
    """The shared schedule of this definition, brought to its canonical form first."""
    cron = definition.cron and canonical_expression(definition.cron)
    exclude = tuple(sorted(set(definition.exclude)))
    canonical = msgspec.structs.replace(definition, cron=cron, exclude=exclude)
    return schedule_of(_encoder.encode(canonical).decode())


def _build(text: str) -> Schedule:
    try:
        definition = _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise UsageError(f"schedule: {text!r:.80} can't be read ({error})", field="schedule") from error
    kind: Any = OnceSchedule
    if definition.cron is not None:
        kind = CronSchedule
    elif definition.every_ms is not None:
        kind = EverySchedule
    elif definition.never:
        kind = NoSchedule
    schedule: Schedule = kind(definition, text)
    return schedule


# --- Jitter -----------------------------------------------------------------------------------------


def jitter_of(job_id: bytes, scheduled_ms: int, jitter_ms: int, next_ms: int | None) -> int:
    """How long after its scheduled time this run fires: the same for everyone who computes it.

    `next_ms` is `schedule.next_after(scheduled_ms)`, the job's bounds left aside. The jitter is less than
    the distance to it, so runs never change their order.
    """
    if jitter_ms <= 0:
        return 0
    room_ms = jitter_ms if next_ms is None else min(jitter_ms, next_ms - scheduled_ms)
    digest = blake2b(job_id + scheduled_ms.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big") * room_ms >> 64
