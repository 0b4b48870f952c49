"""Turning wheels as a shard does, tick after tick of 16 ms, as fast as the machine can.

Time is simulated. First come five minutes of ordinary time, with a border of level 2; from them come the
figures per due entry, in CPU time, since nothing here waits. They are cut into segments, and wheels of all
sizes take turns segment by segment: so a machine that is slow for a while is slow for all of them. Then
come 30 seconds around a border of level 3, where 37 hours' worth of entries is poured down; the longest
advance of all is looked for there too, by the clock on the wall and in CPU time, beside the longest that a
bare loop took meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns, thread_time_ns
from typing import Final, NamedTuple

from shardwheel.bench.filling import STAND_MS, Filling
from shardwheel.bench.measure import microseconds_each, spread
from shardwheel.wheel import Axle, Wheel

TICK_MS: Final = 16
POUR_AT_MOST: Final = 512
SEGMENT_MS: Final = 10_000
_ORDINARY_MS: Final = 300_000
_SEGMENTS_AT_BORDER: Final = 3

Due = list[tuple[Wheel, list[int]]]


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
    """Wheels that are turned together, and what it cost so far."""

    def __init__(
        self, filling: Filling, advance: Callable[[int], Due], prepare: Callable[[int], int]
    ) -> None:
        self._filling = filling
        self._advance = advance
        self._prepare = prepare
        self._ordinary: list[_Tally] = []
        self._at_border: list[_Tally] = []

    def turn_segment(self, number: int) -> None:
        """Ten seconds of ordinary time."""
        self._ordinary.append(self._turn(STAND_MS + number * SEGMENT_MS))

    def turn_border(self) -> None:
        """Half a minute around the border of level 3.

        If there was no time for all segments, the wheels are brought near in one jump that does not count,
        and put in order there.
        """
        begin_ms = STAND_MS + _ORDINARY_MS
        self._put_back(self._advance(begin_ms))
        for wheel in self._filling.wheels:
            wheel.prepare(len(wheel))
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
        tally.touched = -self._touched()
        for now_ms in range(begin_ms + TICK_MS, begin_ms + SEGMENT_MS + 1, TICK_MS):
            self._tick(now_ms, tally)
        tally.touched += self._touched()
        return tally

    def _tick(self, now_ms: int, tally: _Tally) -> None:
        begun_ns = perf_counter_ns()
        begun_cpu_ns = thread_time_ns()
        due = self._advance(now_ms)
        advanced_cpu_ns = thread_time_ns()
        advanced_ns = perf_counter_ns()
        self._put_back(due)
        put_ns = perf_counter_ns()
        put_cpu_ns = thread_time_ns()
        self._prepare(POUR_AT_MOST)
        ended_cpu_ns = thread_time_ns()
        ended_ns = perf_counter_ns()
        _bare_loop()
        tally.longest_bare_ns = max(tally.longest_bare_ns, perf_counter_ns() - ended_ns)
        cpu_ns = advanced_cpu_ns - begun_cpu_ns + ended_cpu_ns - put_cpu_ns
        tally.advance_ns += cpu_ns
        tally.put_ns += put_cpu_ns - advanced_cpu_ns
        tally.due += sum(len(rows) for _, rows in due)
        tally.longest_ns = max(tally.longest_ns, advanced_ns - begun_ns + ended_ns - put_ns)
        tally.longest_cpu_ns = max(tally.longest_cpu_ns, cpu_ns)

    def _put_back(self, due: Due) -> None:
        for wheel, rows in due:
            intervals, due_ms, put = self._filling.intervals_ms[id(wheel)], wheel.due_ms, wheel.put
            for row in rows:
                put(row, due_ms[row] + intervals[row])

    def _touched(self) -> int:
        return sum(wheel.touched for wheel in self._filling.wheels)


def _bare_loop() -> None:
    for _ in range(300):
        pass


def turn_together(turnings: Sequence[Turning], limit_s: float) -> list[Turned]:
    """Segment after segment, each of all in turn, no longer than the limit; then the border."""
    until_ns = perf_counter_ns() + int(limit_s * 1e9)
    for number in range(_ORDINARY_MS // SEGMENT_MS):
        for turning in turnings:
            turning.turn_segment(number)
        if perf_counter_ns() > until_ns:
            break
    for turning in turnings:
        turning.turn_border()
    return [turning.result() for turning in turnings]


def turn_wheels(fillings: Sequence[Filling], limit_s: float) -> list[Turned]:
    """Turn the only wheel of each filling."""
    return turn_together([_alone(filling) for filling in fillings], limit_s)


def _alone(filling: Filling) -> Turning:
    (wheel,) = filling.wheels
    return Turning(filling, lambda now_ms: [(wheel, wheel.advance(now_ms))], wheel.prepare)


def turn_axle(filling: Filling, limit_s: float) -> tuple[Turned, float]:
    """Turn all wheels of a filling on one axle; and what a tick costs, in µs, when nothing is due."""
    axle = Axle(STAND_MS)
    for partition, wheel in enumerate(filling.wheels):
        axle.add(partition, wheel)

    def advance(now_ms: int) -> Due:
        return [(axle[partition], rows) for partition, rows in axle.advance(now_ms)]

    (turned,) = turn_together([Turning(filling, advance, axle.prepare)], limit_s)
    return turned, _idle_tick_us(axle)


def _idle_tick_us(axle: Axle) -> float:
    """The same time again and again: nothing can be due."""
    axle.advance(axle.stand_ms)
    ticks = 500

    def tick() -> None:
        for _ in range(ticks):
            axle.advance(axle.stand_ms)

    return microseconds_each(ticks, tick)
