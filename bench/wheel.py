"""`shardctl bench wheel`: what the wheel costs at 10,000, 100,000 and a million entries held.

Times are CPU time, except the longest advance, which is told both ways. The reference is Python's own
`heapq` with the same entries, measured in the same run; for crons it is croniter and cronsim.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from shardwheel.bench.cron_steps import cron_next_us
from shardwheel.bench.filling import STAND_MS, Filling
from shardwheel.bench.footprint import footprint
from shardwheel.bench.measure import machine, microseconds_each, repeat
from shardwheel.bench.report import Panel, print_machine, print_table, save_picture
from shardwheel.bench.turning import turn_wheels
from shardwheel.wheel import Wheel

HELD: Final = (10_000, 100_000, 1_000_000)
_NEWCOMERS: Final = 5_000
_REPEATS: Final = 5
_SPAN_MS: Final = 86_400_000

Result = dict[str, Any]


def bench_wheel(seconds: float, say: Callable[[str], None], held: Sequence[int] = HELD) -> Result:
    """All figures of contract.md, and some more; `seconds` is for the turning of all sizes together."""
    result: Result = {"held": list(held)}
    for count in held:
        say(f"{count:,} held: memory")
        _note(result, count, _memory(count, max(held)))
    say(f"turning wheels with {', '.join(f'{count:,}' for count in held)} held, by turns")
    fillings = [Filling(count) for count in held]
    for count, turned in zip(held, turn_wheels(fillings, seconds), strict=True):
        _note(result, count, turned._asdict())
    for count, filling in zip(held, fillings, strict=True):
        say(f"{count:,} held: insert and cancel, heapq")
        _note(result, count, _insert_and_cancel(filling.wheel))
        _note(result.setdefault("heapq", {}), count, _heap(count))
    del fillings
    say("cron steps")
    result["cron_next_us"] = cron_next_us(STAND_MS)
    result["machine"] = machine()
    return result


def _note(result: Result, count: int, figures: dict[str, float]) -> None:
    for name, value in figures.items():
        result.setdefault(name, {})[str(count)] = round(value, 4)


def _memory(held: int, entries: int) -> dict[str, float]:
    cost = footprint(held, STAND_MS, entries)
    return {"bytes_per_entry": cost.bytes_per_entry, "gc_ms": cost.gc_ms, "gc_without_ms": cost.gc_without_ms}


def _insert_and_cancel(wheel: Wheel) -> dict[str, float]:
    """Newcomers are inserted one by one into the full wheel, and cancelled again in another order."""
    dice = random.Random(11)
    keys = [dice.randbytes(16) for _ in range(_NEWCOMERS)]
    dues_ms = [wheel.stand_ms + 1 + dice.randrange(_SPAN_MS) for _ in keys]
    leaving = dice.sample(keys, len(keys))
    cancels_us: list[float] = []

    def insert() -> None:
        for key, due_ms in zip(keys, dues_ms, strict=True):
            wheel.insert(key, due_ms)

    def cancel() -> None:
        for key in leaving:
            wheel.cancel(key)

    def both() -> float:
        insert_us = microseconds_each(_NEWCOMERS, insert)
        cancels_us.append(microseconds_each(_NEWCOMERS, cancel))
        return insert_us

    insert_us = repeat(_REPEATS, both).median
    return {"insert_us": insert_us, "cancel_us": sorted(cancels_us)[_REPEATS // 2]}


def _heap(held: int) -> dict[str, float]:
    """A heap of (due, key): newcomers are pushed onto the full heap, then the first ones are popped."""
    dice = random.Random(13)
    heap = [(STAND_MS + dice.randrange(_SPAN_MS), dice.randbytes(16)) for _ in range(held)]
    heapq.heapify(heap)
    newcomers = [(STAND_MS + dice.randrange(_SPAN_MS), dice.randbytes(16)) for _ in range(_NEWCOMERS)]
    pops_us: list[float] = []

    def push() -> None:
        for entry in newcomers:
            heapq.heappush(heap, entry)

    def pop() -> None:
        for _ in range(_NEWCOMERS):
            heapq.heappop(heap)

    def both() -> float:
        push_us = microseconds_each(_NEWCOMERS, push)
        pops_us.append(microseconds_each(_NEWCOMERS, pop))
        return push_us

    insert_us = repeat(_REPEATS, both).median
    return {"insert_us": insert_us, "pop_us": sorted(pops_us)[_REPEATS // 2]}


# --- For people ---------------------------------------------------------------------------------------

_ROWS: Final = (
    ("memory, bytes an entry", "bytes_per_entry"),
    ("garbage collection, ms", "gc_ms"),
    ("insert, µs", "insert_us"),
    ("cancel, µs", "cancel_us"),
    ("advance, µs a due entry", "advance_us_per_due"),
    ("put back, µs", "put_us"),
    ("touches a due entry", "touches_per_due"),
    ("longest advance, ms", "longest_advance_ms"),
    ("  in CPU time, ms", "longest_advance_cpu_ms"),
    ("  longest bare loop, ms", "longest_bare_ms"),
)


def print_result(result: Result) -> None:
    counts = [str(count) for count in result["held"]]
    rows: list[list[object]] = [[label, *(result[name][at] for at in counts)] for label, name in _ROWS]
    for label, name in (("heapq: push, µs", "insert_us"), ("heapq: pop, µs", "pop_us")):
        rows.append([label, *(result["heapq"][name][at] for at in counts)])
    print_table("The wheel", ["held", *(f"{int(at):,}" for at in counts)], rows)
    steps = result["cron_next_us"]
    print_table(
        "A cron's next time",
        ["", "µs", "ratio"],
        [[name, value, round(value / steps["ours"], 1)] for name, value in steps.items()],
    )
    print_machine(result["machine"])


def picture(result: Result, path: Path) -> None:
    """Four diagrams over the number of entries held."""
    counts = [str(count) for count in result["held"]]

    def line(of: Result, name: str) -> list[float]:
        return [of[name][at] for at in counts]

    def panel(title: str, y_label: str, lines: dict[str, list[float]], *, log: bool = False) -> Panel:
        return Panel(title, "entries held", y_label, result["held"], lines, log)

    heap = result["heapq"]
    save_picture(
        path,
        "The wheel: what an entry costs, by how many are held",
        [
            panel(
                "CPU time",
                "µs",
                {
                    "advance, a due entry": line(result, "advance_us_per_due"),
                    "put back": line(result, "put_us"),
                    "insert by id": line(result, "insert_us"),
                    "cancel by id": line(result, "cancel_us"),
                    "heapq push": line(heap, "insert_us"),
                    "heapq pop": line(heap, "pop_us"),
                },
            ),
            panel("Touches", "touches a due entry", {"wheel": line(result, "touches_per_due")}),
            panel("Memory", "bytes an entry, index included", {"wheel": line(result, "bytes_per_entry")}),
            panel(
                "The longest pause",
                "ms",
                {
                    "advance, by the clock": line(result, "longest_advance_ms"),
                    "advance, in CPU time": line(result, "longest_advance_cpu_ms"),
                    "a bare loop, by the clock": line(result, "longest_bare_ms"),
                    "garbage collection": line(result, "gc_ms"),
                },
                log=True,
            ),
        ],
    )
