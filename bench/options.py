"""What the commands of `shardctl bench` share: their options, and the two ways to answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from shardwheel.bench.report import print_json

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
SecondsOption = Annotated[float, typer.Option(min=0.1, help="How long to measure, about.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="Draw a picture into this PNG file.", dir_okay=False)
]


def parse_counts(text: str) -> list[int]:
    """Numbers of jobs, separated by commas."""
    return [parse_count(part) for part in text.split(",")]


def parse_count(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is not a number of jobs", param_hint="--jobs")
    return int(text)


def answer(result: Any, as_json: bool, print_result: Callable[[Any], None]) -> None:
    (print_json if as_json else print_result)(result)


def draw(result: Any, plot: Path | None, picture: Callable[[Any, Path], None]) -> None:
    if plot is not None:
        picture(result, plot)
