"""`shardctl bench page`: docs/benchmarks.md and its pictures, from the JSON of runs and from nothing else.

A section a run: what the benchmark's own docstring says it does, its tables, its picture, its machine. Where
there is no run yet, what was once measured by hand (results/earlier/NAME.md) stands in its place, marked so.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from shardwheel.bench.campaign import RUNS, read_run
from shardwheel.bench.report import machine_line, markdown, tables_of, versions_line
from shardwheel.bench.scale import scale_page

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PICTURES: Final = "pictures"
_TITLES: Final = {
    "wheel": "The wheel",
    "tick": "Tick latency",
    "herd": "A herd at nine o'clock",
    "fire": "Fires a second, by shards",
    "claim": "Claims and settles",
    "e2e": "End to end",
    "coldstart": "Cold start, by jobs",
    "enqueue": "Storing jobs through the API",
    "failover-standby": "Fail-over with standbys",
    "failover-alone": "Fail-over without standbys",
    "failover-stop": "Fail-over of a stopped shard",
    "move": "A move (drain and back)",
    "holds": "Beside what is held",
    "dag": "DAGs",
    "sleepers": "Sleeping executions",
    "isolated": "Isolated handlers",
    "growth": "Growth",
    "peers": "Against the others",
}
# Where a run's functions are, if not in the module of its name.
_MODULES: Final = {
    "failover-standby": "failover",
    "failover-alone": "failover",
    "failover-stop": "failover",
    "peers": "peers.answer",
}
_DOCSTRINGS: Final = {"peers": "peers.rows"}
_PICTURES: Final = {"failover": "pauses", "move": "pauses"}


def write_pages(results: Path, docs: Path = DOCS) -> list[Path]:
    runs = read_runs(results)
    pictures = docs / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        _module(_PICTURES, _MODULES.get(name, name)).picture(run["result"], pictures / f"bench-{name}.png")
    pages = {
        docs / "benchmarks.md": benchmarks_page(runs, results),
        docs / "scale.md": scale_page(runs, text(results, "scale")),
    }
    for path, written in pages.items():
        path.write_text(written)
    return list(pages)


def read_runs(results: Path) -> dict[str, dict[str, Any]]:
    """By name, in the order of a campaign."""
    found = {run.name: results / f"{run.name}.json" for run in RUNS}
    return {name: read_run(path) for name, path in found.items() if path.exists()}


def benchmarks_page(runs: Mapping[str, dict[str, Any]], results: Path) -> str:
    sections = [_section(run.name, runs.get(run.name), results / "earlier") for run in RUNS]
    notes = (results / "earlier" / "notes.md").read_text()
    earlier = f"## Earlier notes: where the time went\nTaken by hand, on older commits.\n\n{notes}"
    parts = [
        text(results, "head"),
        *(section for section in sections if section),
        earlier,
        text(results, "tail"),
    ]
    return "\n".join(parts)


def text(results: Path, name: str) -> str:
    """What people wrote around the figures."""
    return (results / "texts" / f"{name}.md").read_text()


def _section(name: str, run: dict[str, Any] | None, earlier: Path) -> str:
    title = f"## {_TITLES[name]}\n"
    if run is not None:
        return title + _measured(name, run) + _said_of(name, earlier.parent)
    by_hand = earlier / f"{name}.md"
    if by_hand.exists():
        return f"{title}*No run is kept yet; an earlier figure:* {by_hand.read_text()}"
    return ""


def _said_of(name: str, results: Path) -> str:
    """What people found out about a run's figures, if somebody wrote it down."""
    return f"\n{text(results, name)}" if (results / "texts" / f"{name}.md").exists() else ""


def _measured(name: str, run: dict[str, Any]) -> str:
    module = _module(_MODULES, name)
    tables = tables_of(module.print_result, run["result"])
    machine = _machine(run["result"])
    return "\n".join(
        [
            f"`{run['command']}`, {run['began_at']}, {run['took_s']} s.\n",
            _method(_module(_DOCSTRINGS, name) if name in _DOCSTRINGS else module),
            *map(markdown, tables),
            f"![{_TITLES[name]}]({PICTURES}/bench-{name}.png)\n",
            f"<sub>{machine_line(machine)}. {versions_line(machine)}.</sub>\n",
        ]
    )


def _method(module: Any) -> str:
    """A module's docstring without its first line's command."""
    text = (module.__doc__ or "").strip()
    first, _, rest = text.partition("\n\n")
    return f"{first.partition(': ')[2] if first.startswith('`') else first}\n\n{rest}\n".replace(
        "\n\n\n", "\n\n"
    )


def _machine(result: Any) -> dict[str, Any]:
    machine: dict[str, Any] = (result[-1] if isinstance(result, list) else result)["machine"]
    return machine


def _module(names: Mapping[str, str], name: str) -> Any:
    return import_module(f"shardwheel.bench.{names.get(name, name)}")
