"""`shardctl bench all`: every run that the page needs, in order, each by its own command, resumable.

A run's JSON is kept as `NAME.json` with its command and how long it took. What was done today is not done
again. The longest keeps each of its rows as `NAME.rows` while it runs, and goes on from there if it breaks.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

Say = Callable[[str], None]


class Planned(NamedTuple):
    """A run: the name of its file, what follows `shardctl bench`, about how long it takes on 2 cores."""

    name: str
    arguments: tuple[str, ...]
    minutes: float
    # It has the option `--keep`.
    keeps: bool = False


RUNS: Final = (
    Planned("wheel", ("wheel",), 2.5),
    Planned("tick", ("tick", "--held", "333000", "--rate", "2000"), 2),
    Planned("herd", ("herd", "--jobs", "200000"), 1),
    Planned("fire", ("fire", "--seconds", "60"), 3.5),
    Planned("claim", ("claim",), 1),
    Planned("e2e", ("e2e",), 4),
    Planned("coldstart", ("coldstart", "--jobs", "100000,333000,1000000"), 3.5),
    Planned("enqueue", ("enqueue",), 2),
    Planned("failover-standby", ("failover", "--standby", "1"), 2),
    Planned("failover-alone", ("failover", "--standby", "0"), 2),
    Planned("failover-stop", ("failover", "--standby", "1", "--how", "stop"), 2),
    Planned("move", ("move",), 2),
    Planned("holds", ("holds",), 5),
    Planned("dag", ("dag",), 1.5),
    Planned("sleepers", ("sleepers",), 1.5),
    Planned("isolated", ("isolated",), 1),
    Planned("growth", ("growth",), 9),
    Planned("peers", ("peers", "--limit", "45"), 60, keeps=True),
)


def chosen(only: str) -> list[Planned]:
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = {run.name for run in RUNS}
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no run: there are {', '.join(run.name for run in RUNS)}")
    return [run for run in RUNS if not names or run.name in names]


def run_all(runs: Sequence[Planned], into: Path, *, again: bool, plan: bool, say: Say) -> list[str]:
    """The names of those that failed; the others' results are in the folder."""
    today = datetime.now(UTC).date().isoformat()
    open_runs = [run for run in runs if again or not is_done(into / f"{run.name}.json", today)]
    for line in plan_lines(runs, open_runs):
        say(line)
    if plan:
        return []
    into.mkdir(parents=True, exist_ok=True)
    return [run.name for run in open_runs if not _run(run, into, say)]


def plan_lines(runs: Sequence[Planned], open_runs: Sequence[Planned]) -> list[str]:
    lines = [
        f"  {run.name:18} {f'about {run.minutes:g} min' if run in open_runs else 'done today'}"
        for run in runs
    ]
    return [*lines, f"{len(open_runs)} to run, about {sum(run.minutes for run in open_runs):g} min together"]


def is_done(path: Path, today: str) -> bool:
    return path.exists() and str(read_run(path).get("began_at", "")).startswith(today)


def read_run(path: Path) -> dict[str, Any]:
    run: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    return run


def _run(run: Planned, into: Path, say: Say) -> bool:
    """Its progress goes where ours goes; a result is kept only if there is one."""
    began = datetime.now(UTC)
    say(f"{began:%H:%M} {run.name}: shardctl bench {' '.join(run.arguments)}, about {run.minutes:g} min")
    begun_s = time.monotonic()
    rows = into / f"{run.name}.rows"
    keep_rows = ["--keep", str(rows)] if run.keeps else []
    command = [sys.executable, "-m", "shardwheel.cli", "bench", *run.arguments, "--json", *keep_rows]
    done = subprocess.run(command, stdout=subprocess.PIPE)
    if done.returncode:
        say(f"{run.name} failed with {done.returncode}: its earlier result, if any, stays")
        return False
    kept = {
        "command": " ".join(["shardctl", "bench", *run.arguments]),
        "began_at": began.strftime("%Y-%m-%dT%H:%MZ"),
        "took_s": round(time.monotonic() - begun_s),
        "result": msgspec.json.decode(done.stdout),
    }
    keep(into / f"{run.name}.json", kept)
    rows.unlink(missing_ok=True)
    return True


def keep(path: Path, kept: dict[str, Any]) -> None:
    """Whole or not at all."""
    beside = path.with_suffix(".part")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    beside.replace(path)
