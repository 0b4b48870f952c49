"""`shardctl dag force-complete | skip | rerun | cancel`: what people do to a run, straight on the store."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from shardwheel.commands.connection import TENANT, at_the_terminal, connection
from shardwheel.commands.context import DataOption
from shardwheel.commands.dag import print_run
from shardwheel.commands.reading import json_of
from shardwheel.errors import ConflictError
from shardwheel.ids import id_of
from shardwheel.output import Format, FormatOption, agreed
from shardwheel.store import dag_hands
from shardwheel.store.dag_reading import read_run

RunId = Annotated[str, typer.Argument(help="The run's id.")]
TaskKey = Annotated[str, typer.Argument(help="The task's key in its DAG.")]


class Children(StrEnum):
    run = "run"
    skip = "skip"


def force_complete(
    run_id: RunId,
    task: TaskKey,
    result: Annotated[
        str | None, typer.Option("--result", help="Its output for its children, as JSON.")
    ] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Say that a task is done: its children go on as if it had succeeded.

    Example:

        shardctl dag force-complete 019a… extract --result '["a.csv", "b.csv"]'
    """
    value = None if result is None else json_of(result, "result")
    _do(run_id, data, output, lambda conn, hand, run: dag_hands.force_complete(conn, hand, run, task, value))


def skip(
    run_id: RunId,
    task: TaskKey,
    children: Annotated[Children, typer.Option(help="What becomes of its children.")] = Children.run,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Leave a task out: its children run without it, or are skipped as well."""
    said: Literal["run", "skip"] = "run" if children is Children.run else "skip"
    _do(run_id, data, output, lambda conn, hand, run: dag_hands.skip_task(conn, hand, run, task, said))


def rerun(
    run_id: RunId,
    task: Annotated[list[str] | None, typer.Option(help="Only these failed tasks.")] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Let a run go on from its failed tasks: what succeeded stays as it is."""
    _do(run_id, data, output, lambda conn, hand, run: dag_hands.rerun(conn, hand, run, task or None))


def cancel(
    run_id: RunId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Cancel a run: nothing more of it begins, and what runs is asked to stop."""
    if not yes and not agreed(f"Cancel run {run_id}?"):
        raise ConflictError("nothing was cancelled: say --yes, or answer y at the terminal")
    _do(run_id, data, output, dag_hands.cancel_run)


def _do(run_id: str, data: Path | None, output: Format, change: Callable[..., Any]) -> None:
    with connection(data) as conn:
        change(conn, dag_hands.Hand(TENANT, *at_the_terminal()), id_of(run_id))
        shown = read_run(conn, TENANT, id_of(run_id))
    print_run(shown, output)
