"""Turning wheels as a shard does, tick after tick of 16 ms, as fast as the machine can.

Time is simulated. First come five minutes of ordinary time, with a border of level 2; from them come the
figures per due entry, in CPU time, since nothing here waits. They are cut into segments, and wheels of all
sizes take turns segment by segment: so a machine that is slow for a while is slow for all of them. Then
come 30 seconds around a border of level 3, where 37 hours' worth of entries is poured down; the longest
advance of all is looked for there too, by the clock on the wall and in CPU time, beside the longest that a
bare loop took meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns, thread_time_ns
from typing import Final, NamedTuple

import numpy as np

from shardwheel.bench.filling import STAND_MS, Filling
from shardwheel.bench.measure import spread

TICK_MS: Final = 16
POUR_AT_MOST: Final = 512
SEGMENT_MS: Final = 10_000
_ORDINARY_MS: Final = 300_000
_SEGMENTS_AT_BORDER: Final = 3


class Turned(NamedTuple):
    """What turning cost. `advance` is advance and prepare together: all that the wheel does for time."""

    advance_us_per_due: float
    put_us: float
    touches_per_due: float
    longest_advance_ms: float
    longest_advance_cpu_ms: float
    # The longest that the same machine took, meanwhile, for a bare loop of a few microseconds.
    longest_bare_ms: float
    due: int


class _Tally:
    """Times and counts of one segment."""

    def __init__(self) -> None:
        self.advance_ns = self.put_ns = self.due = self.touched = 0
        self.longest_ns = self.longest_cpu_ns = self.longest_bare_ns = 0


class Turning:
    """A wheel that is turned, and what it cost so far."""

    def __init__(self, filling: Filling) -> None:
        self._wheel = filling.wheel
        self._intervals_ms = filling.intervals_ms
        self._ordinary: list[_Tally] = []
        self._at_border: list[_Tally] = []

    def turn_segment(self, number: int) -> None:
        """Ten seconds of ordinary time."""
        self._ordinary.append(self._turn(STAND_MS + number * SEGMENT_MS))

    def turn_border(self) -> None:
        """Half a minute around the border of level 3.

        If there was no time for all segments, the wheel is brought near in one jump that does not count,
        and put in order there.
        """
        begin_ms = STAND_MS + _ORDINARY_MS
        self._put_back(self._wheel.advance(begin_ms))
        self._wheel.prepare(len(self._wheel))
        for number in range(_SEGMENTS_AT_BORDER):
            self._at_border.append(self._turn(begin_ms + number * SEGMENT_MS))

    def result(self) -> Turned:
        ordinary, everything = self._ordinary, [*self._ordinary, *self._at_border]
        due = sum(tally.due for tally in ordinary)
        return Turned(
            advance_us_per_due=spread(tally.advance_ns / tally.due / 1000 for tally in ordinary).median,
            put_us=spread(tally.put_ns / tally.due / 1000 for tally in ordinary).median,
            touches_per_due=sum(tally.touched for tally in ordinary) / due,
            longest_advance_ms=max(tally.longest_ns for tally in everything) / 1e6,
            longest_advance_cpu_ms=max(tally.longest_cpu_ns for tally in everything) / 1e6,
            longest_bare_ms=max(tally.longest_bare_ns for tally in everything) / 1e6,
            due=due,
        )

    def _turn(self, begin_ms: int) -> _Tally:
        tally = _Tally()
        tally.touched = -self._wheel.touched
        for now_ms in range(begin_ms + TICK_MS, begin_ms + SEGMENT_MS + 1, TICK_MS):
            self._tick(now_ms, tally)
        tally.touched += self._wheel.touched
        return tally

    def _tick(self, now_ms: int, tally: _Tally) -> None:
        begun_ns = perf_counter_ns()
        begun_cpu_ns = thread_time_ns()
        due = self._wheel.advance(now_ms)
        advanced_cpu_ns = thread_time_ns()
        advanced_ns = perf_counter_ns()
        self._put_back(due)
        put_ns = perf_counter_ns()
        put_cpu_ns = thread_time_ns()
        self._wheel.prepare(POUR_AT_MOST)
        ended_cpu_ns = thread_time_ns()
        ended_ns = perf_counter_ns()
        _bare_loop()
        tally.longest_bare_ns = max(tally.longest_bare_ns, perf_counter_ns() - ended_ns)
        cpu_ns = advanced_cpu_ns - begun_cpu_ns + ended_cpu_ns - put_cpu_ns
        tally.advance_ns += cpu_ns
        tally.put_ns += put_cpu_ns - advanced_cpu_ns
        tally.due += len(due)
        tally.longest_ns = max(tally.longest_ns, advanced_ns - begun_ns + ended_ns - put_ns)
        tally.longest_cpu_ns = max(tally.longest_cpu_ns, cpu_ns)

    def _put_back(self, due: list[int]) -> None:
        rows = np.array(due, np.int64)
        self._wheel.put_many(rows, self._wheel.dues_of(rows) + self._intervals_ms[rows])


def _bare_loop() -> None:
    for _ in range(300):
        pass


def turn_wheels(fillings: Sequence[Filling], limit_s: float) -> list[Turned]:
    """Segment after segment, each of all in turn, no longer than the limit; then the border."""
    turnings = [Turning(filling) for filling in fillings]
    until_ns = perf_counter_ns() + int(limit_s * 1e9)
    for number in range(_ORDINARY_MS // SEGMENT_MS):
        for turning in turnings:
            turning.turn_segment(number)
        if perf_counter_ns() > until_ns:
            break
    for turning in turnings:
        turning.turn_border()
    return [turning.result() for turning in turnings]
