"""How the benchmarks answer: a table for people, one JSON value for scripts, a picture on request.

Standard output holds the answer and nothing else; progress goes to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from shardwheel.errors import UsageError


def say(line: str) -> None:
    """Tell on standard error how far it is."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def print_json(result: Any) -> None:
    """The one JSON value on standard output."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")


class Tabled(NamedTuple):
    """A table as it would be printed, for the page."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


_collected: ContextVar[list[Tabled] | None] = ContextVar("collected", default=None)


def tables_of(print_result: Callable[[Any], None], result: Any) -> list[Tabled]:
    """What a benchmark prints, without printing it."""
    tables: list[Tabled] = []
    token = _collected.set(tables)
    try:
        print_result(result)
    finally:
        _collected.reset(token)
    return tables


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table with the first column to the left and all others, figures, to the right."""
    collected = _collected.get()
    if collected is not None:
        collected.append(Tabled(title, columns, [[figure(value) for value in row] for row in rows]))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=not number)
    for row in rows:
        table.add_row(*(figure(value) for value in row))
    console = Console(highlight=False)
    console.print(f"\n{title}", style="bold")
    console.print(table)


def print_machine(machine: Mapping[str, Any]) -> None:
    """The small print below a table."""
    if _collected.get() is not None:
        return
    console = Console(highlight=False)
    console.print(machine_line(machine), style="dim")
    console.print(versions_line(machine), style="dim")


def machine_line(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_1_min']}, {machine['system']}, "
        f"{machine['measured_at']}"
    )


def versions_line(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {text}" for name, text in machine["versions"].items())


def figure(value: object) -> str:
    """A figure with three significant digits, a large one whole, with commas."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown(table: Tabled) -> str:
    """As a page shows it."""
    lines = [
        f"**{table.title}**\n",
        _markdown_line(table.columns),
        _markdown_line(["---", *("---:" for _ in table.columns[1:])]),
        *map(_markdown_line, table.rows),
    ]
    return "\n".join(lines) + "\n"


def _markdown_line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


class Bars(NamedTuple):
    """One diagram of a picture: a bar for each named figure."""

    title: str
    y_label: str
    bars: Mapping[str, float]
    log: bool = False


class Panel(NamedTuple):
    """One diagram of a picture: lines (name → values) over x."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    log: bool = False
    log_x: bool = True
    marker: str = "o"


def save_picture(path: Path, title: str, panels: Sequence[Panel | Bars]) -> None:
    """Draw the panels side by side, two a row, into a PNG file."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "--plot needs matplotlib, which is not installed: pip install 'shardwheel[plot]'", field="plot"
        ) from error
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    picture = Figure(figsize=(11, 3.8 * rows), layout="constrained")
    FigureCanvasAgg(picture)
    picture.suptitle(title)
    all_axes = list(picture.subplots(rows, columns, squeeze=False).flat)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(all_axes, panels, strict=False):
        if isinstance(panel, Bars):
            _draw_bars(axes, panel)
        else:
            _draw_lines(axes, panel)
    picture.savefig(path, dpi=110)


# Names below bars stand side by side up to so many characters in all.
_ROOM_FOR_NAMES: Final = 50


def _draw_bars(axes: Any, panel: Bars) -> None:
    drawn = axes.bar(list(panel.bars), list(panel.bars.values()))
    axes.bar_label(drawn, [figure(value) for value in panel.bars.values()])
    axes.set(title=panel.title, ylabel=panel.y_label)
    if panel.log:
        axes.set_yscale("log")
    # Room for the figure above the highest bar.
    axes.margins(y=0.15)
    if sum(map(len, panel.bars)) > _ROOM_FOR_NAMES:
        axes.tick_params(axis="x", labelsize="small")
        for label in axes.get_xticklabels():
            label.set(rotation=40, horizontalalignment="right", rotation_mode="anchor")
    axes.grid(visible=True, axis="y", alpha=0.3)


def _draw_lines(axes: Any, panel: Panel) -> None:
    for name, values in panel.lines.items():
        axes.plot(panel.x, values, marker=panel.marker, label=name)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.log_x:
        axes.set_xscale("log")
        axes.set_xticks(panel.x, [figure(x) for x in panel.x])
        axes.minorticks_off()
    if panel.log:
        axes.set_yscale("log")
    else:
        # Room above the highest point, so that a flat line does not lie on the frame.
        # Of nothing but zeros there is no axis to draw.
        axes.set_ylim(0, 1.15 * max(max(values) for values in panel.lines.values()) or 1)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
