"""Turning wheels as a shard does, tick after tick of 16 ms, as fast as the machine can.

Time is simulated. First come five minutes of ordinary time, with a border of level 2; from them come the
figures per due entry, in CPU time, since nothing here waits. Then come 30 seconds around a border of level
3, where 37 hours' worth of entries is poured down; the longest advance of all is looked for there too, by
the clock on the wall and in CPU time, beside the longest that a bare loop took meanwhile.

The load is the same however much is held: half of the entries, the hot ones, are due 2,000 times a second
together; the other half, between an hour and a month away, are only there. Each entry that comes out goes
back in with its own interval, so that the wheel stays as full as it was.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from time import perf_counter_ns, thread_time_ns
from typing import Final, NamedTuple

from shardwheel.bench.measure import microseconds_each, spread
from shardwheel.wheel import Axle, Wheel

TICK_MS: Final = 16
RATE_PER_S: Final = 2_000
# A border of level 3, where those of all finer levels fall too: 2026-11-21, in the evening.
_BORDER_MS: Final = 13_376 << 27
STAND_MS: Final = _BORDER_MS - 310_000
_ORDINARY_MS: Final = 300_000
SEGMENT_MS: Final = 30_000
POUR_AT_MOST: Final = 512
_HOUR_MS: Final = 3_600_000
_MONTH_MS: Final = 30 * 86_400_000

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


class Load:
    """Wheels filled alike, and the interval of each row in each of them."""

    def __init__(self, held: int, partitions: int = 1) -> None:
        dice = random.Random(5)
        self.intervals_ms: dict[int, array[int]] = {}
        self.wheels = [self._filled(held, partitions, dice) for _ in range(partitions)]

    def _filled(self, held: int, partitions: int, dice: random.Random) -> Wheel:
        """One of so many wheels that hold so many entries together."""
        count = held // partitions
        hot_ms = held // 2 * 1000 // RATE_PER_S
        intervals = array("Q", (hot_ms if row % 2 else _cold_ms(dice) for row in range(count)))
        wheel = Wheel(STAND_MS)
        self.intervals_ms[id(wheel)] = intervals
        keys = [dice.randbytes(16) for _ in range(count)]
        wheel.load(keys, [STAND_MS + 1 + dice.randrange(interval) for interval in intervals])
        return wheel


def _cold_ms(dice: random.Random) -> int:
    """Between an hour and a month, short ones more often: evenly on a logarithmic scale."""
    return int(_HOUR_MS * (_MONTH_MS / _HOUR_MS) ** dice.random())


def turn_wheel(load: Load, limit_s: float) -> Turned:
    """Turn the only wheel of a load."""
    (wheel,) = load.wheels

    def advance(now_ms: int) -> Due:
        return [(wheel, wheel.advance(now_ms))]

    return _turn(load, advance, wheel.prepare, limit_s)


def turn_axle(load: Load, limit_s: float) -> tuple[Turned, float]:
    """Turn all wheels of a load on one axle; and what a tick costs, in µs, when nothing is due."""
    axle = Axle(STAND_MS)
    for partition, wheel in enumerate(load.wheels):
        axle.add(partition, wheel)

    def advance(now_ms: int) -> Due:
        return [(axle[partition], rows) for partition, rows in axle.advance(now_ms)]

    turned = _turn(load, advance, axle.prepare, limit_s)
    return turned, _idle_tick_us(axle)


def _idle_tick_us(axle: Axle) -> float:
    """The same time again and again: nothing can be due."""
    axle.advance(axle.stand_ms)
    ticks = 500

    def tick() -> None:
        for _ in range(ticks):
            axle.advance(axle.stand_ms)

    return microseconds_each(ticks, tick)


class _Tally:
    """Times and counts of one stretch of ticks."""

    def __init__(self) -> None:
        self.advance_ns = self.put_ns = self.due = self.touched = 0
        self.longest_ns = self.longest_cpu_ns = self.longest_bare_ns = 0


def _turn(load: Load, advance: Callable[[int], Due], prepare: Callable[[int], int], limit_s: float) -> Turned:
    """Segment after segment, no longer than the limit; the border comes last, whatever the time.

    If there was no time for all segments, the wheels are brought to the border in one jump that does not
    count, and put in order there.
    """
    until_ns = perf_counter_ns() + int(limit_s * 1e9)
    tallies = []
    for begin_ms in range(STAND_MS, STAND_MS + _ORDINARY_MS, SEGMENT_MS):
        tallies.append(_turn_through(begin_ms, load, advance, prepare))
        if perf_counter_ns() > until_ns:
            break
    _put_back(advance(STAND_MS + _ORDINARY_MS), load)
    for wheel in load.wheels:
        wheel.prepare(len(wheel))
    at_border = _turn_through(STAND_MS + _ORDINARY_MS, load, advance, prepare)
    return _summary(tallies, at_border)


def _turn_through(
    begin_ms: int, load: Load, advance: Callable[[int], Due], prepare: Callable[[int], int]
) -> _Tally:
    tally = _Tally()
    tally.touched = -sum(wheel.touched for wheel in load.wheels)
    for now_ms in range(begin_ms + TICK_MS, begin_ms + SEGMENT_MS + 1, TICK_MS):
        begun_ns = perf_counter_ns()
        begun_cpu_ns = thread_time_ns()
        due = advance(now_ms)
        advanced_cpu_ns = thread_time_ns()
        advanced_ns = perf_counter_ns()
        _put_back(due, load)
        put_ns = perf_counter_ns()
        put_cpu_ns = thread_time_ns()
        prepare(POUR_AT_MOST)
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
    tally.touched += sum(wheel.touched for wheel in load.wheels)
    return tally


def _put_back(due: Due, load: Load) -> None:
    for wheel, rows in due:
        intervals, due_ms, put = load.intervals_ms[id(wheel)], wheel.due_ms, wheel.put
        for row in rows:
            put(row, due_ms[row] + intervals[row])


def _bare_loop() -> None:
    for _ in range(300):
        pass


def _summary(ordinary: Sequence[_Tally], at_border: _Tally) -> Turned:
    due = sum(tally.due for tally in ordinary)
    everything = [*ordinary, at_border]
    return Turned(
        advance_us_per_due=spread(tally.advance_ns / tally.due / 1000 for tally in ordinary).median,
        put_us=spread(tally.put_ns / tally.due / 1000 for tally in ordinary).median,
        touches_per_due=sum(tally.touched for tally in ordinary) / due,
        longest_advance_ms=max(tally.longest_ns for tally in everything) / 1e6,
        longest_advance_cpu_ms=max(tally.longest_cpu_ns for tally in everything) / 1e6,
        longest_bare_ms=max(tally.longest_bare_ns for tally in everything) / 1e6,
        due=due,
    )
