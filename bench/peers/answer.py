"""How `bench peers` answers people: a table, and a picture of what can be drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from shardwheel.bench.report import Bars, figure, print_machine, print_table, save_picture

Report = list[dict[str, Any]]
OURS: Final = "shardwheel"
# Column → how it is read from an entry, and whether more is better.
_PLAIN: Final = {
    "herd, started/s": ("fire_per_s", True),
    "late p99 at 100/s, ms": ("lateness_p99_ms", False),
    "restart, s": ("restart_s", False),
    "end to end/s": ("e2e_per_s", True),
    "  recurring/s": ("e2e_recurring_per_s", True),
}


def columns() -> list[str]:
    return ["peer", *_PLAIN]


def rows_of(report: Report) -> list[list[object]]:
    return [[_named(one), *(shown(one, name) for name, _ in _PLAIN.values())] for one in report]


def shown(entry: dict[str, Any], name: str) -> str:
    """A figure, with whether it was done; "can't" if the reason says so; a dash if it was not asked for."""
    value = entry.get(name)
    row = {
        "fire_per_s": "herd",
        "lateness_p99_ms": "pace",
        "restart_s": "restart",
        "e2e_per_s": "once",
        "e2e_recurring_per_s": "repeated",
    }[name]
    # A restart is told by how many were held: of these, the one whose figure this is.
    told = (row, f"{row} {entry.get('restart_held', max(entry.get('recurring') or [0], key=int))}")
    reasons = [why for what, why in entry["cannot"].items() if what in told]
    if value is not None:
        return f"{figure(value)}, not finished" if reasons else figure(value)
    if not reasons:
        return "–"
    return "not finished" if "did not finish" in reasons[0] else "can't"


# How many times ahead we mean to be.
_AHEAD: Final = 5.0
_AHEAD_END_TO_END: Final = 1.0
_END_TO_END: Final = ("end to end/s", "recurring/s")
RECURRING_COLUMNS: Final = ("load, s", "bytes a job", "late p50, ms", "late p99, ms", "restart, s")
_RECURRING: Final = ("load_s", "bytes_per_job", "lateness_p50_ms", "lateness_p99_ms", "restart_s")


def recurring_rows(report: Report) -> list[list[object]]:
    """One a peer and number of jobs."""
    return [
        [one["peer"], int(count), *(_cell(held, name) for name in _RECURRING)]
        for one in report
        for count, held in one["recurring"].items()
    ]


def _cell(held: dict[str, Any] | None, name: str) -> str:
    value = (held or {}).get(name)
    return "–" if value is None else figure(value)


def ratios(report: Report) -> dict[str, dict[str, float]]:
    """By peer and figure, how many times we are ahead; below 1 we are behind. What either of the two has no
    figure for is left out."""
    ours = next((one for one in report if one["peer"] == OURS), None)
    if ours is None:
        return {}
    found: dict[str, dict[str, float]] = {}
    mine = _comparable(ours)
    for one in report:
        if one is not ours:
            for name, (theirs, more_is_better) in _comparable(one).items():
                if name in mine:
                    ratio = mine[name][0] / theirs if more_is_better else theirs / mine[name][0]
                    found.setdefault(one["peer"], {})[name] = round(ratio, 2)
    return found


def _comparable(entry: dict[str, Any]) -> dict[str, tuple[float, bool]]:
    """Figure → its value, and whether more is better."""
    plain = {
        title.strip(): (entry.get(name), more)
        for title, (name, more) in _PLAIN.items()
        if name != "restart_s"  # Compared with as many held as the other one had.
    }
    held = {
        f"{title}, {int(count):,} held": ((of_count or {}).get(name), False)
        for count, of_count in entry["recurring"].items()
        for title, name in zip(RECURRING_COLUMNS, _RECURRING, strict=True)
        if name != "lateness_p50_ms"
    }
    # Who holds nothing in memory has about 0 bytes a job, or less: there is no ratio.
    return {title: (value, more) for title, (value, more) in (plain | held).items() if value and value > 0}


def ahead_table(report: Report) -> tuple[list[str], list[list[object]]]:
    """A line a figure, a column a peer."""
    found = ratios(report)
    names = dict.fromkeys(name for of_peer in found.values() for name in of_peer)
    rows: list[list[object]] = [
        [name, *(figure(of_peer[name]) if name in of_peer else "–" for of_peer in found.values())]
        for name in names
    ]
    return ["", *found], rows


def short_of(report: Report) -> list[list[object]]:
    """Figure, how many times ahead we mean to be, and who keeps us from it."""
    short: dict[str, list[str]] = {}
    for peer, of_peer in ratios(report).items():
        for name, ratio in of_peer.items():
            if ratio < _aim(name):
                short.setdefault(name, []).append(f"{peer} {figure(ratio)}")
    return [[name, f"{_aim(name):g}", ", ".join(peers)] for name, peers in short.items()]


def _aim(name: str) -> float:
    return _AHEAD_END_TO_END if name in _END_TO_END else _AHEAD


def reasons(report: Report) -> list[list[object]]:
    return [[f"{one['peer']}, {row}", why] for one in report for row, why in one["cannot"].items()]


def settings_of(report: Report) -> list[list[object]]:
    return [
        [_named(one), "on disk" if one["durable"] else "in memory: gone with the process", one["settings"]]
        for one in report
    ]


def _named(entry: dict[str, Any]) -> str:
    return f"{entry['peer']} {entry['version']}".strip()


def print_result(report: Report) -> None:
    print_table("How each is set up", ["", "keeps jobs", "settings"], settings_of(report))
    print_table("The same work on each", columns(), rows_of(report))
    peers, rows = ahead_table(report)
    if rows:
        print_table("How many times we are ahead", peers, rows)
    if short := short_of(report):
        print_table("Where we are less ahead than we mean to be", ["", "aim, times", "of whom"], short)
    if any(one["recurring"] for one in report):
        titles = ["recurring jobs", "held", *RECURRING_COLUMNS]
        print_table("Recurring jobs held", titles, recurring_rows(report))
    if any(one["cannot"] for one in report):
        print_table("What could not be done", ["", "why"], reasons(report))
    if report:
        print_machine(report[-1]["machine"])


def picture(report: Report, path: Path) -> None:
    """A diagram a figure, of those who have it."""
    panels = []
    for title, (name, _) in _PLAIN.items():
        bars = {one["peer"]: float(one[name]) for one in report if one.get(name) is not None}
        if bars:
            panels.append(Bars(title.strip(), title.strip(), bars, log=True))
    if loads := _loads(report):
        panels.append(loads)
    save_picture(path, "The same work on each", panels)


def _loads(report: Report) -> Bars | None:
    """How long loading took, of as many recurring jobs as most peers held; of these the largest number."""
    held = [
        (int(count), one["peer"], float(of_count["load_s"]))
        for one in report
        for count, of_count in one["recurring"].items()
        if of_count and of_count.get("load_s")
    ]
    if not held:
        return None
    numbers = Counter(count for count, _, _ in held)
    most = max(numbers, key=lambda count: (numbers[count], count))
    bars = {peer: load_s for count, peer, load_s in held if count == most}
    return Bars(f"loading {most:,} recurring jobs, s", "load, s", bars, log=True)
