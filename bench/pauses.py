"""What a fault does to the partitions it hits: how long each pauses, what is late, lost or published twice.

Calm, then the fault, then time to recover, all while something of every affected partition is due each 50 ms;
then what the topic holds is compared with what the schedules say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import trio

from shardwheel.bench.embedded import Servers
from shardwheel.bench.measure import Latencies, machine
from shardwheel.bench.report import Bars, Panel, save_picture
from shardwheel.bench.shards import (
    Published,
    dues_of,
    now_ms,
    paced_entries,
    read_back,
    until_fired,
)
from shardwheel.bench.stored import store
from shardwheel.wire import FireKind

SECONDS: Final = 20.0
# From storing the jobs until the first is due: by then every shard has read them.
_LEAD_MS: Final = 4_000
# Of the seconds to measure, so much is calm before the fault.
_CALM: Final = 0.25
_BEFORE_MS, _TIMELINE_MS, _BAR_MS = 2_000, 10_000, 100

LABELS: Final = {
    "gap_p50_s": "gap of a partition, p50, s",
    "gap_max_s": "  longest, s",
    "calm_gap_max_s": "longest pause before, s",
    "late_p99_s": "lateness since, p99, s",
    "partitions": "partitions",
    "fires": "fires",
    "lost": "lost",
    "skipped": "skipped",
    "doubled_publishes": "published twice",
}

Report = dict[str, Any]


class Spell(NamedTuple):
    """When the fault was, and until when what is due counts."""

    fault_ms: int
    end_ms: int


async def measure_pauses(
    servers: Servers,
    partitions: Sequence[int],
    seconds: float,
    strike: Callable[[], Awaitable[Report]],
    say: Callable[[str], None],
) -> Report:
    """Fire these partitions, strike in the midst of it, and judge; with what `strike` has to report."""
    start_ms = now_ms(servers) + _LEAD_MS
    entries = paced_entries(partitions, start_ms)
    store(servers.dsn, entries, triggers=True)
    say(f"firing {len(partitions)} partitions each 50 ms")
    await trio.sleep(_LEAD_MS / 1000 + seconds * _CALM)
    fault_ms = now_ms(servers)
    told = await strike()
    await trio.sleep(seconds * (1 - _CALM))
    end_ms = now_ms(servers)
    await until_fired(servers, partitions, end_ms)
    say("reading the topic")
    dues = dues_of(entries, end_ms)
    published = await trio.to_thread.run_sync(read_back, servers, list(dues))
    found = judge(published, dues, Spell(fault_ms, end_ms))
    return found | told | {"partitions": len(partitions), "machine": machine()}


def judge(
    published: Sequence[Published], dues: Mapping[bytes, Sequence[int]], spell: Spell
) -> dict[str, Any]:
    """The gap of a partition is its longest pause from the fault until the end; the calm gap, its longest
    before the fault."""
    first: dict[bytes, Published] = {}
    fires = [one for one in published if one.fire.kind == FireKind.FIRE]
    for one in sorted(fires, key=lambda one: one.at_ms):
        first.setdefault(one.fire.execution_id, one)
    # What begins later is fired beside this benchmark's own reading of the topic.
    gaps_s = _gaps_s(
        first.values(), lambda begin_ms, end_ms: end_ms >= spell.fault_ms and begin_ms < spell.end_ms
    )
    calm_s = _gaps_s(first.values(), lambda begin_ms, end_ms: end_ms < spell.fault_ms)
    late = Latencies()
    for one in first.values():
        if one.fire.due_ms >= spell.fault_ms:
            late.record(one.at_ms - one.fire.due_ms)
    seen = {(one.fire.job_id, one.fire.scheduled_ms) for one in fires}
    due = {(job_id, at_ms) for job_id, times in dues.items() for at_ms in times if at_ms <= spell.end_ms}
    return {
        "gap_p50_s": round(median(gaps_s), 3),
        "gap_max_s": round(max(gaps_s), 3),
        "late_p99_s": round(late.percentile_ms(99) / 1000, 3),
        "lost": len(due - seen),
        "skipped": len(published) - len(fires),
        "doubled_publishes": len(fires) - len(first),
        "timeline": timeline(first.values(), spell.fault_ms),
        "calm_gap_p50_s": round(median(calm_s), 3),
        "calm_gap_max_s": round(max(calm_s), 3),
        "fires": len(first),
    }


def timeline(fires: Iterable[Published], fault_ms: int) -> list[int]:
    """How many were appended in each tenth of a second, from two before the fault to eight after it."""
    bars = [0] * (_TIMELINE_MS // _BAR_MS)
    for one in fires:
        place = (one.at_ms - fault_ms + _BEFORE_MS) // _BAR_MS
        if 0 <= place < len(bars):
            bars[place] += 1
    return bars


def _gaps_s(fires: Iterable[Published], counts: Callable[[int, int], bool]) -> list[float]:
    """By partition the longest pause that counts, by when it begins and ends."""
    moments: dict[int, list[int]] = defaultdict(list)
    for one in fires:
        moments[one.fire.partition].append(one.at_ms)
    return [
        max((b - a for a, b in pairwise(sorted(times)) if counts(a, b)), default=0) / 1000
        for times in moments.values()
    ]


def picture(result: Report, path: Path) -> None:
    names = ["gap_p50_s", "gap_max_s", "calm_gap_max_s", "late_p99_s"]
    bars = {name.removesuffix("_s").replace("_", " "): float(result[name]) for name in names}
    fires = [float(count) for count in result["timeline"]]
    seconds = [(place * _BAR_MS - _BEFORE_MS) / 1000 for place in range(len(fires))]
    line = Panel(
        "Around the fault",
        "s since the fault",
        "fires in 0.1 s",
        seconds,
        {"affected partitions": fires},
        log_x=False,
        marker="",
    )
    save_picture(path, "The partitions that were hit", [line, Bars("pauses and lateness", "s", bars)])
