"""Time zones as spans of constant offset, so that a schedule pays for a zone once a span, not once a step.

`zoneinfo` is right but slow to ask for every fire. A *span* is a stretch of UTC in which a zone's
offset is constant; inside it, wall time and UTC differ by one addition. What happens at the change
between two spans (a gap when clocks go forward, a fold when they go back) is decided here once, as the
wall times that belong to each span, so that whoever searches for a time needs no special case.

Example, Europe/Berlin on 29 March 2026: wall time jumps from 02:00 to 03:00. With `dst_gap="shift"` the
span before the jump also owns the missing wall times 02:00…02:59, and they all come out at its end,
03:00. With `"skip"` nobody owns them. On 25 October, 02:00…02:59 happen twice: `dst_fold` says which
of the two spans owns them, or both.

The data is that of the pinned `tzdata` package, never the system's, so that every machine of a cluster
computes the same times. Never reads a clock.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, tzinfo
from functools import cache
from importlib.resources import files
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from shardwheel.errors import UsageError
from shardwheel.times import DAY_S

DstGap = Literal["shift", "skip"]
DstFold = Literal["first", "last", "both"]

# Wall time is counted in seconds from 1968, a leap year that began on a Monday: nothing is negative in
# any zone from 1970 on, and `day % 7` is the weekday.
WALL_EPOCH: Final = datetime(1968, 1, 1, tzinfo=UTC)
WALL_EPOCH_S: Final = int(WALL_EPOCH.timestamp())

# Spans are made a chunk at a time, about a year each, when somebody first asks for a time in it.
CHUNK_S: Final = 365 * DAY_S
# No zone has changed its offset twice within this time since 1970 (tests/unit/test_zone.py looks), so
# probing this often finds every change.
PROBE_S: Final = 4 * DAY_S


def wall_day(day: date) -> int:
    """The number of this date in wall time: `wall_day(day) * DAY_S` is its midnight."""
    return day.toordinal() - WALL_EPOCH.toordinal()


class Span(NamedTuple):
    """A stretch of UTC, `since_s <= t < until_s`, in which `wall = t + shift_s`.

    The wall times that this span answers for are `wall_from_s <= wall < wall_to_s`; one at or past its
    end belongs to a gap and comes out at `until_s`.
    """

    since_s: int
    until_s: int
    shift_s: int
    wall_from_s: int
    wall_to_s: int


class _Stretch(NamedTuple):
    """A span before gap and fold are decided, with the shifts of its neighbours."""

    since_s: int
    until_s: int
    shift_s: int
    shift_before_s: int
    shift_after_s: int


class Zone:
    """One time zone's stretches of constant offset, found by asking `zoneinfo`, remembered by chunk."""

    def __init__(self, info: tzinfo) -> None:
        self.info = info
        self._chunks: dict[int, list[_Stretch]] = {}

    def shift_at(self, utc_s: int) -> int:
        offset = datetime.fromtimestamp(utc_s, self.info).utcoffset()
        assert offset is not None  # a zone always knows
        return int(offset.total_seconds()) - WALL_EPOCH_S

    def stretches(self, chunk: int) -> list[_Stretch]:
        found = self._chunks.get(chunk)
        if found is None:
            found = self._chunks[chunk] = self._probe(chunk * CHUNK_S, (chunk + 1) * CHUNK_S)
        return found

    def _probe(self, start_s: int, end_s: int) -> list[_Stretch]:
        """The stretches of one chunk. A chunk's borders need not be changes: the shifts are then equal."""
        changes = [(start_s - 1, self.shift_at(start_s - 1)), (start_s, self.shift_at(start_s))]
        for low_s in range(start_s, end_s, PROBE_S):
            high_s = min(low_s + PROBE_S, end_s)
            if self.shift_at(high_s) != changes[-1][1]:
                changed_s = self._change_between(low_s, high_s)
                changes.append((changed_s, self.shift_at(changed_s)))
        if changes[-1][0] != end_s:
            changes.append((end_s, changes[-1][1]))
        return [
            _Stretch(since_s, until_s, shift_s, shift_before_s, shift_after_s)
            for (_, shift_before_s), (since_s, shift_s), (until_s, shift_after_s) in zip(
                changes, changes[1:], changes[2:], strict=False
            )
        ]

    def _change_between(self, low_s: int, high_s: int) -> int:
        """The first second of the offset that holds at `high_s`, by bisection."""
        before_s = self.shift_at(low_s)
        while high_s - low_s > 1:
            middle_s = (low_s + high_s) // 2
            if self.shift_at(middle_s) == before_s:
                low_s = middle_s
            else:
                high_s = middle_s
        return high_s


class WallClock:
    """A zone read under one policy for gaps and folds. Shared: `wall_clock` makes one per policy."""

    def __init__(self, zone: Zone, dst_gap: DstGap, dst_fold: DstFold) -> None:
        self._zone = zone
        self._gap = dst_gap
        self._fold = dst_fold
        self._chunks: dict[int, tuple[list[int], list[Span]]] = {}

    def span_at(self, utc_s: int) -> Span:
        chunk = utc_s // CHUNK_S
        found = self._chunks.get(chunk)
        if found is None:
            spans = [self._decide(stretch) for stretch in self._zone.stretches(chunk)]
            found = self._chunks[chunk] = ([span.since_s for span in spans], spans)
        starts, spans = found
        return spans[bisect_right(starts, utc_s) - 1]

    def utc_of(self, wall_s: int) -> int:
        """The first moment at which this wall time has come: of a repeated one the first, of a missing
        one the end of its gap."""
        utc_s = max(wall_s + WALL_EPOCH_S - 2 * DAY_S, 0)
        while True:
            span = self.span_at(utc_s)
            if wall_s < span.until_s + span.shift_s:
                return max(wall_s - span.shift_s, span.since_s)
            utc_s = span.until_s

    def _decide(self, stretch: _Stretch) -> Span:
        since_s, until_s, shift_s, shift_before_s, shift_after_s = stretch
        wall_from_s, wall_to_s = since_s + shift_s, until_s + shift_s
        if shift_before_s > shift_s and self._fold == "first":
            wall_from_s = since_s + shift_before_s
        if shift_after_s < shift_s and self._fold == "last":
            wall_to_s = until_s + shift_after_s
        if shift_after_s > shift_s and self._gap == "shift":
            wall_to_s = until_s + shift_after_s
        return Span(since_s, until_s, shift_s, wall_from_s, wall_to_s)


@cache
def zone_names() -> frozenset[str]:
    """Every zone of the pinned `tzdata`."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


def zone_of(name: str) -> Zone:
    """The zone of this IANA name; a `UsageError` when there is none."""
    if name not in zone_names():
        raise UsageError(
            f"time_zone: there is no zone {name[:64]!r}; use an IANA name such as 'Europe/Berlin' or 'UTC'",
            field="time_zone",
        )
    return _load(name)


# Bounded by the number of zones: only names that exist get this far.
@cache
def _load(name: str) -> Zone:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return Zone(ZoneInfo.from_file(file, key=name))


@cache
def wall_clock(name: str, dst_gap: DstGap, dst_fold: DstFold) -> WallClock:
    return WallClock(zone_of(name), dst_gap, dst_fold)
