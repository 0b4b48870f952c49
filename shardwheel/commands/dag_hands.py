"""`shardctl dag force-complete | skip | rerun | cancel`: what people do to a run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from shardwheel.commands.dag import show_run
from shardwheel.commands.filters import YesOption
from shardwheel.commands.reading import json_of
from shardwheel.commands.verbs import Terminal

RunId = Annotated[str, typer.Argument(help="The run's id.")]
TaskKey = Annotated[str, typer.Argument(help="The task's key in its DAG.")]


class Children(StrEnum):
    run = "run"
    skip = "skip"


def force_complete(
    at: Terminal,
    run_id: RunId,
    task: TaskKey,
    result: Annotated[
        str | None, typer.Option("--result", help="Its output for its children, as JSON.")
    ] = None,
) -> None:
    """Say that a task is done: its children go on as if it had succeeded.

    Example:

        shardctl dag force-complete 019a… extract --result '["a.csv", "b.csv"]'
    """
    body = {} if result is None else {"output": json_of(result, "result")}
    _do(at, run_id, "/tasks/{}:force-complete", task, body=body)


def skip(
    at: Terminal,
    run_id: RunId,
    task: TaskKey,
    children: Annotated[Children, typer.Option(help="What becomes of its children.")] = Children.run,
) -> None:
    """Leave a task out: its children run without it, or are skipped as well.

    Example:

        shardctl dag skip 019a… convert --children skip
    """
    _do(at, run_id, "/tasks/{}:skip", task, body={"children": children.value})


def rerun(
    at: Terminal,
    run_id: RunId,
    task: Annotated[list[str] | None, typer.Option(help="Only these failed tasks.")] = None,
) -> None:
    """Let a run go on from its failed tasks: what succeeded stays as it is.

    Example:

        shardctl dag rerun 019a… --task load
    """
    _do(at, run_id, ":rerun", body={"tasks": task} if task else {})


def cancel(at: Terminal, run_id: RunId, yes: YesOption = False) -> None:
    """Cancel a run: nothing more of it begins, and what runs is asked to stop. Said twice, the same.

    Example:

        shardctl dag cancel 019a… --yes
    """
    run = at.api.get("/dag-runs/{}", run_id)
    told = f"of DAG {run['dag_id']}, {run['state']}, {run['unfinished']} tasks not over"
    at.agree(f"Cancel run {run_id} ({told})?", "cancelled", yes)
    _do(at, run_id, ":cancel", body={})


def _do(at: Terminal, run_id: str, what: str, *ids: str, body: dict[str, Any]) -> None:
    """A run's own id is enough for people; the API's address of it begins with its DAG."""
    dag_id = at.api.get("/dag-runs/{}", run_id)["dag_id"]
    show_run(at, at.api.post("/dags/{}/runs/{}" + what, dag_id, run_id, *ids, body=body))
