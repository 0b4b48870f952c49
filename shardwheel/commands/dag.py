"""`shardctl dag …`: DAGs and their runs. Its JSON is what the API answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from shardwheel.commands.calling import PAGE
from shardwheel.commands.filters import CursorOption, LimitOption, YesOption
from shardwheel.commands.reading import json_of, object_of_file
from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import UsageError

app = noun("Create, look at and steer DAGs.")
run_app = noun("Look at runs of DAGs.")
app.add_typer(run_app, name="run")

COLUMNS = ["id", "name", "state", "version", "policy", "task_count", "next_at"]
TASK_COLUMNS = ["key", "task", "depends_on", "fan_out"]
RUN_COLUMNS = ["id", "state", "scheduled_at", "succeeded", "failed", "skipped", "unfinished"]
RUN_TASK_COLUMNS = ["key", "state", "items", "attempt", "execution_id"]
DagId = Annotated[str, typer.Argument(help="The DAG's id.")]
DagFile = Annotated[Path, typer.Argument(help="YAML or JSON; - for standard input.")]
SUCH_AS = "name, cron and tasks"


@verb(app)
def create(at: Terminal, file: DagFile) -> None:
    """Store a DAG with all its tasks, or nothing of it. Without a schedule only a trigger runs it.

    Examples:

        shardctl dag create etl.yaml

        shardctl dag create - -o json < etl.json
    """
    _show_dag(at, at.api.make("/dags", body=plain(object_of_file(file, SUCH_AS))))


@verb(app)
def update(at: Terminal, dag_id: DagId, file: DagFile) -> None:
    """Change a DAG, as a new version: runs go on with the one they began with.

    The file holds the fields that change; `tasks`, if it has them, are all of them. null takes a field away.

    Example:

        echo 'cron: "0 3 * * *"' | shardctl dag update 0193… -
    """
    _show_dag(at, at.api.patch("/dags/{}", dag_id, body=plain(object_of_file(file, SUCH_AS))))


@verb(app)
def get(at: Terminal, dag_id: DagId) -> None:
    """Show a DAG and its tasks.

    Example:

        shardctl dag get 0193… -o yaml
    """
    _show_dag(at, at.api.get("/dags/{}", dag_id))


@verb(app, "list")
def list_(
    at: Terminal,
    state: Annotated[str | None, typer.Option(help="active, paused, completed or deleted.")] = None,
    task: Annotated[str | None, typer.Option(help="With a task of this type.")] = None,
    tag: Annotated[str | None, typer.Option(help="With this tag.")] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List DAGs, oldest first.

    Example:

        shardctl dag list --state paused
    """
    page = at.api.get("/dags", state=state, task=task, tag=tag, limit=min(limit, PAGE), cursor=cursor)
    _rows(at, page, COLUMNS)


@verb(app)
def pause(at: Terminal, dag_id: DagId) -> None:
    """No run begins, nor any task of those under way, until the DAG is resumed. Said twice, the same.

    Example:

        shardctl dag pause 0193…
    """
    _show_dag(at, at.api.post("/dags/{}:pause", dag_id))


@verb(app)
def resume(at: Terminal, dag_id: DagId) -> None:
    """Let a paused DAG go on from now, with the tasks that were held. Said twice, the same.

    Example:

        shardctl dag resume 0193…
    """
    _show_dag(at, at.api.post("/dags/{}:resume", dag_id))


@verb(app)
def trigger(
    at: Terminal,
    dag_id: DagId,
    params: Annotated[
        str | None, typer.Option(help="Params for this run, as JSON: over those of each task.")
    ] = None,
) -> None:
    """Run a DAG now, paused or not; prints the run's id.

    Examples:

        shardctl dag trigger 0193… -o json

        shardctl dag trigger 0193… --params '{"month": "2026-10"}'
    """
    body = {} if params is None else {"params": json_of(params, "params")}
    at.show(at.api.make("/dags/{}:trigger", dag_id, body=body))


@verb(app)
def delete(at: Terminal, dag_id: DagId, yes: YesOption = False) -> None:
    """Delete a DAG and its tasks: nothing of it starts any more. Said twice, the same.

    Example:

        shardctl dag delete 0193… --yes
    """
    dag = at.api.get("/dags/{}", dag_id)
    told = f"{dag['name'] or 'no name'}, {dag['state']}, {dag['task_count']} tasks"
    at.agree(f"Delete DAG {dag_id} ({told})?", "deleted", yes)
    _show_dag(at, at.api.delete("/dags/{}", dag_id))


@verb(app)
def runs(
    at: Terminal,
    dag_id: DagId,
    state: Annotated[
        str | None, typer.Option(help="running, succeeded, failed, partial or cancelled.")
    ] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List runs of a DAG, the latest scheduled time first.

    Example:

        shardctl dag runs 0193… --state failed
    """
    _rows(at, at.api.get("/dags/{}/runs", dag_id, state=state, limit=limit, cursor=cursor), RUN_COLUMNS)


@verb(run_app)
def show(at: Terminal, run_id: Annotated[str, typer.Argument(help="The run's id.")]) -> None:
    """Show a run and what became of each task.

    Example:

        shardctl dag run show 019a… -o json
    """
    show_run(at, at.api.get("/dag-runs/{}", run_id))


def show_run(at: Terminal, run: dict[str, Any]) -> None:
    """A run as it stands, with its tasks."""
    _show_with_tasks(at, run, RUN_TASK_COLUMNS)


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """YAML knows dates and times; the API wants them as texts."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(body)
    except (RecursionError, TypeError) as error:
        raise UsageError(f"file: can't be written as JSON: {error}", field="file") from error
    return found


def _show_dag(at: Terminal, dag: dict[str, Any]) -> None:
    _show_with_tasks(at, dag, TASK_COLUMNS)


def _rows(at: Terminal, page: dict[str, Any], columns: list[str]) -> None:
    at.rows(page["items"], columns)
    if page["next_cursor"] is not None:
        typer.echo(f"there are more: --cursor {page['next_cursor']}", err=True)


def _show_with_tasks(at: Terminal, thing: dict[str, Any], columns: list[str]) -> None:
    """One value for scripts; for people a line a field, and then a line a task."""
    if not at.is_for_people:
        at.show(thing)
        return
    at.show({name: value for name, value in thing.items() if name != "tasks"})
    typer.echo()
    at.rows([_line(task) for task in thing["tasks"]], columns)


def _line(task: dict[str, Any]) -> dict[str, Any]:
    """A task in a table: its parents by key, its state with the reason, and of a fan-out how many items are
    over."""
    fan_out, state, reason = task["fan_out"], task.get("state"), task.get("reason")
    over = f"{fan_out['items'] - fan_out['open']} of {fan_out['items']}" if _has_items(fan_out) else None
    spelled = f"{state} ({reason})" if reason and reason != state else state
    return task | {"depends_on": ", ".join(task["depends_on"]), "items": over, "state": spelled}


def _has_items(fan_out: Any) -> bool:
    return isinstance(fan_out, dict) and fan_out["items"] is not None
