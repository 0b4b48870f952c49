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
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Final, Literal
from weakref import WeakValueDictionary

import msgspec

from shardwheel.errors import UsageError
from shardwheel.exclusions import Exclusions
from shardwheel.expression import canonical_expression, compile_cron
from shardwheel.times import DAY_S, END_MS
from shardwheel.zone import DstFold, DstGap, Span, wall_clock

ScheduleKind = Literal["cron", "every", "once", "none"]


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

    __slots__ = ("__weakref__", "_excluded", "definition", "text")
    kind: ClassVar[ScheduleKind]

    def __init__(self, definition: Definition, text: str) -> None:
        self.definition = definition
        self.text = text
        self._excluded = Exclusions(definition.exclude, definition.time_zone) if definition.exclude else None

    @abstractmethod
    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        """The first time strictly after this one; None when there is none before 2201."""

    def times_between(self, after_ms: int, through_ms: int, anchor_ms: int = 0) -> Iterator[int]:
        """The times with after_ms < time <= through_ms, in order, computed as they are asked for."""
        time_ms = self.next_after(after_ms, anchor_ms)
        while time_ms is not None and time_ms <= through_ms:
            yield time_ms
            time_ms = self.next_after(time_ms, anchor_ms)

    def count_between(self, after_ms: int, through_ms: int, anchor_ms: int = 0) -> int:
        """How many times `times_between` would give, without going through them."""
        through_ms = min(through_ms, END_MS - 1)
        count = self._count(after_ms, through_ms, anchor_ms)
        if self._excluded is not None:
            for start_ms, end_ms in self._excluded.within(after_ms, through_ms):
                count -= self._count(max(after_ms, start_ms - 1), min(through_ms, end_ms - 1), anchor_ms)
        return count

    def nth_after(self, after_ms: int, n: int, anchor_ms: int = 0) -> int | None:
        """The n-th time (1, 2, …) strictly after this one; None when there are fewer.

        Ever longer windows until one holds it, then halves of that one: the cost grows with the logarithm
        of the time to go, not with n.
        """
        window_ms = 1 << 27
        while (count := self.count_between(after_ms, after_ms + window_ms, anchor_ms)) < n:
            n, after_ms, window_ms = n - count, after_ms + window_ms, window_ms * 2
            if after_ms >= END_MS:
                return None
        while n > 1:
            window_ms //= 2
            count = self.count_between(after_ms, after_ms + window_ms, anchor_ms)
            if count < n:
                n, after_ms = n - count, after_ms + window_ms
        return self.next_after(after_ms, anchor_ms)

    @abstractmethod
    def _first_from(self, from_ms: int, anchor_ms: int) -> int:
        """The first time at or after this one, exclusions left aside; `END_MS` or more when none is."""

    @abstractmethod
    def _count(self, after_ms: int, through_ms: int, anchor_ms: int) -> int:
        """How many times have after_ms < time <= through_ms, exclusions left aside."""

    def _past_exclusions(self, excluded: Exclusions, time_ms: int, anchor_ms: int) -> int:
        while (resumes_ms := excluded.end_around(time_ms)) is not None:
            time_ms = self._first_from(resumes_ms, anchor_ms)
        return time_ms


class CronSchedule(Schedule):
    __slots__ = ("_clock", "_cron", "_memo", "_span")
    kind = "cron"

    def __init__(self, definition: Definition, text: str) -> None:
        super().__init__(definition, text)
        assert definition.cron is not None
        self._cron = compile_cron(definition.cron)
        if self._cron.follows_elapsed_time:
            self._clock = wall_clock(definition.time_zone, "skip", "both")
        else:
            self._clock = wall_clock(definition.time_zone, definition.dst_gap, definition.dst_fold)
        self._span = Span(0, 0, 0, 0, 0)
        # For every time from the first to before the second, the next one is the second.
        self._memo = (0, 0)

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        known_from_ms, next_ms = self._memo
        if not known_from_ms <= after_ms < next_ms:
            next_ms = self._first_from(after_ms + 1, anchor_ms)
            if self._excluded is not None:
                next_ms = self._past_exclusions(self._excluded, next_ms, anchor_ms)
            self._memo = (after_ms, next_ms)
        return next_ms if next_ms < END_MS else None

    def _first_from(self, from_ms: int, anchor_ms: int) -> int:
        from_s = (from_ms + 999) // 1000
        since_s, until_s, shift_s, wall_from_s, wall_to_s = self._span
        while True:
            if since_s <= from_s < until_s:
                wall_s = from_s + shift_s
                wall_s = self._cron.next_wall(wall_s if wall_s > wall_from_s else wall_from_s)
                if wall_s < wall_to_s:
                    time_s = wall_s - shift_s
                    return (time_s if time_s < until_s else until_s) * 1000
                # Nothing matches before `wall_s`, so go to just before it; but from the last day of a span
                # to the next one, where that day's wall times may come again.
                nears_s = wall_s - shift_s - 2 * DAY_S
                from_s = until_s if until_s - from_s <= DAY_S or nears_s < until_s else nears_s
            if from_s >= END_MS // 1000:
                return END_MS
            from_s = max(from_s, 0)
            since_s, until_s, shift_s, wall_from_s, wall_to_s = self._span = self._clock.span_at(from_s)

    def _count(self, after_ms: int, through_ms: int, anchor_ms: int) -> int:
        count, from_s, to_s = 0, max(after_ms // 1000 + 1, 0), through_ms // 1000 + 1
        while from_s < to_s:
            span = self._clock.span_at(from_s)
            count += self._count_in(span, from_s, to_s)
            from_s = span.until_s
        return count

    def _count_in(self, span: Span, from_s: int, to_s: int) -> int:
        """How many times this span answers for, from `from_s` to before `to_s`."""
        cron, end_s = self._cron, min(to_s, span.until_s)
        wall_from_s = max(from_s + span.shift_s, span.wall_from_s)
        wall_to_s = min(end_s + span.shift_s, span.wall_to_s)
        count = (
            cron.count_before(wall_to_s) - cron.count_before(wall_from_s) if wall_from_s < wall_to_s else 0
        )
        # The missing times of a gap come out as one, at its end; there the next span may have one anyway.
        in_gap = span.until_s < to_s and cron.next_wall(span.until_s + span.shift_s) < span.wall_to_s
        return count + (in_gap and cron.next_wall(span.wall_to_s) > span.wall_to_s)


class EverySchedule(Schedule):
    """Anchored: the times are anchor + k × interval, however late somebody looks."""

    __slots__ = ("_every_ms",)
    kind = "every"

    def __init__(self, definition: Definition, text: str) -> None:
        super().__init__(definition, text)
        assert definition.every_ms is not None
        self._every_ms = definition.every_ms

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        next_ms = after_ms + self._every_ms - (after_ms - anchor_ms) % self._every_ms
        if self._excluded is not None:
            next_ms = self._past_exclusions(self._excluded, next_ms, anchor_ms)
        return next_ms if next_ms < END_MS else None

    def _first_from(self, from_ms: int, anchor_ms: int) -> int:
        return from_ms + (anchor_ms - from_ms) % self._every_ms

    def _count(self, after_ms: int, through_ms: int, anchor_ms: int) -> int:
        return (through_ms - anchor_ms) // self._every_ms - (after_ms - anchor_ms) // self._every_ms


class OnceSchedule(Schedule):
    """One time, which is the job's anchor: so all onces share one object."""

    __slots__ = ()
    kind = "once"

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        return anchor_ms if after_ms < anchor_ms < END_MS else None

    def _first_from(self, from_ms: int, anchor_ms: int) -> int:
        return anchor_ms if from_ms <= anchor_ms else END_MS

    def _count(self, after_ms: int, through_ms: int, anchor_ms: int) -> int:
        return int(after_ms < anchor_ms <= through_ms)


class NoSchedule(Schedule):
    """A job that runs only when somebody triggers it, or as a task of a DAG."""

    __slots__ = ()
    kind = "none"

    def next_after(self, after_ms: int, anchor_ms: int = 0) -> int | None:
        return None

    def _first_from(self, from_ms: int, anchor_ms: int) -> int:
        return END_MS

    def _count(self, after_ms: int, through_ms: int, anchor_ms: int) -> int:
        return 0


# --- Text and sharing -------------------------------------------------------------------------------

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Definition)
# Whoever holds a schedule keeps it shared; when nobody does, it goes. The small cache in front makes the
# common case quick, and keeps a service compiling once that holds none.
_shared: Final[WeakValueDictionary[str, Schedule]] = WeakValueDictionary()


@lru_cache(maxsize=16_384)
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
