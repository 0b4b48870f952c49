"""`shardctl dag …`: DAGs and their runs, straight on the store. Its JSON is what the API answers.

What was done is committed before it is printed: `shardctl dag update … | head -1` must not take it back.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
import yaml

from shardwheel.commands.connection import TENANT, connection
from shardwheel.commands.context import DataOption
from shardwheel.dag import parse_dag
from shardwheel.errors import ConflictError, UsageError
from shardwheel.ids import id_of, text_of
from shardwheel.output import Format, FormatOption, agreed, print_rows, print_thing
from shardwheel.store import dag_reading, dags
from shardwheel.store.dag_row import DagRow

app = typer.Typer(help="Create, look at and steer DAGs.", no_args_is_help=True)
run_app = typer.Typer(help="Look at runs of DAGs.", no_args_is_help=True)
app.add_typer(run_app, name="run")

COLUMNS = ["id", "name", "state", "version", "policy", "task_count", "next_at"]
TASK_COLUMNS = ["key", "task", "depends_on", "fan_out"]
RUN_COLUMNS = ["id", "state", "scheduled_at", "succeeded", "failed", "skipped", "unfinished"]
RUN_TASK_COLUMNS = ["key", "state", "items", "attempt", "execution_id"]
DagId = Annotated[str, typer.Argument(help="The DAG's id.")]
DagFile = Annotated[Path, typer.Argument(help="YAML or JSON; - for standard input.")]
Limit = Annotated[int, typer.Option(help="At most so many.", min=1, max=200)]
# The same loader, but in C: ten thousand tasks are read in a second, not in ten.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@app.command()
def create(file: DagFile, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Store a DAG with all its tasks, or nothing of it. Without a schedule only a trigger runs it.

    Examples:

        shardctl dag create etl.yaml

        shardctl dag create - -o json < etl.json
    """
    posting = parse_dag(_body(file))
    with connection(data) as conn:
        shown = dag_reading.read_dag(conn, TENANT, dags.create_dag(conn, TENANT, posting))
    _print_dag(shown, output)


@app.command()
def update(
    dag_id: DagId, file: DagFile, data: DataOption = None, output: FormatOption = Format.table
) -> None:
    """Change a DAG, as a new version: runs go on with the one they began with.

    The file holds the fields that change; `tasks`, if it has them, are all of them. null takes a field away.

    Example:

        echo 'cron: "0 3 * * *"' | shardctl dag update 0193… -
    """
    changes = _body(file)
    with connection(data) as conn:
        dags.edit_dag(conn, TENANT, id_of(dag_id), changes)
        shown = dag_reading.read_dag(conn, TENANT, id_of(dag_id))
    _print_dag(shown, output)


@app.command()
def get(dag_id: DagId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Show a DAG and its tasks."""
    with connection(data) as conn:
        shown = dag_reading.read_dag(conn, TENANT, id_of(dag_id))
    _print_dag(shown, output)


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="active, paused, completed or deleted.")] = None,
    limit: Limit = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after this DAG's id.")] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """List DAGs, oldest first."""
    with connection(data) as conn:
        page = dag_reading.list_dags(conn, TENANT, dag_reading.DagFilter(state), limit=limit, cursor=cursor)
    print_rows(page.items, COLUMNS, output)


@app.command()
def pause(dag_id: DagId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """No run begins, nor any task of those under way, until the DAG is resumed. Said twice, the same."""
    _change(dag_id, data, output, dags.pause_dag)


@app.command()
def resume(dag_id: DagId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Let a paused DAG go on from now, with the tasks that were held."""
    _change(dag_id, data, output, dags.resume_dag)


@app.command()
def trigger(dag_id: DagId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Run a DAG now, paused or not; prints the run's id."""
    with connection(data) as conn:
        run_id = dags.trigger_dag(conn, TENANT, id_of(dag_id), uuid.uuid4().bytes)
    print_thing({"run_id": text_of(run_id), "dag_id": dag_id}, output)


@app.command()
def delete(
    dag_id: DagId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Delete a DAG and its tasks: nothing of it starts any more."""
    with connection(data) as conn:
        dag = dag_reading.get_dag(conn, TENANT, id_of(dag_id))
        question = (
            f"Delete DAG {dag_id} ({dag.job.name or 'no name'}, {dag.job.state}, {dag.task_count} tasks)?"
        )
        if not yes and not agreed(question):
            raise ConflictError("nothing was deleted: say --yes, or answer y at the terminal")
        dags.delete_dag(conn, TENANT, dag.job.job_id)
        shown = dag_reading.read_dag(conn, TENANT, dag.job.job_id)
    _print_dag(shown, output)


@app.command()
def runs(
    dag_id: DagId,
    state: Annotated[
        str | None, typer.Option(help="running, succeeded, failed, partial or cancelled.")
    ] = None,
    limit: Limit = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on before this run's id.")] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """List runs of a DAG, the latest scheduled time first."""
    with connection(data) as conn:
        wanted = dag_reading.RunFilter(id_of(dag_id), state)
        page = dag_reading.list_runs(conn, TENANT, wanted, limit=limit, cursor=cursor)
    print_rows(page.items, RUN_COLUMNS, output)


@run_app.command()
def show(
    run_id: Annotated[str, typer.Argument(help="The run's id.")],
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Show a run and what became of each task.

    Example:

        shardctl dag run show 019a… -o json
    """
    with connection(data) as conn:
        shown = dag_reading.read_run(conn, TENANT, id_of(run_id))
    print_run(shown, output)


def _change(dag_id: str, data: Path | None, output: Format, change: Callable[..., DagRow]) -> None:
    with connection(data) as conn:
        change(conn, TENANT, id_of(dag_id))
        shown = dag_reading.read_dag(conn, TENANT, id_of(dag_id))
    _print_dag(shown, output)


def print_run(run: dict[str, Any], output: Format) -> None:
    """A run as it stands, with its tasks."""
    _print_with_tasks(run, RUN_TASK_COLUMNS, output)


def _print_dag(dag: dict[str, Any], output: Format) -> None:
    _print_with_tasks(dag, TASK_COLUMNS, output)


def _print_with_tasks(thing: dict[str, Any], columns: list[str], output: Format) -> None:
    """One value for scripts; for people a line a field, and then a line a task."""
    if output is not Format.table:
        print_thing(thing, output)
        return
    print_thing({name: value for name, value in thing.items() if name != "tasks"}, output)
    typer.echo()
    print_rows([_line(task) for task in thing["tasks"]], columns, output)


def _line(task: dict[str, Any]) -> dict[str, Any]:
    """A task in a table: its parents by key, its state with the reason, and of a fan-out how many items are
    over."""
    fan_out, state, reason = task["fan_out"], task.get("state"), task.get("reason")
    over = f"{fan_out['items'] - fan_out['open']} of {fan_out['items']}" if _has_items(fan_out) else None
    spelled = f"{state} ({reason})" if reason and reason != state else state
    return task | {"depends_on": ", ".join(task["depends_on"]), "items": over, "state": spelled}


def _has_items(fan_out: Any) -> bool:
    return isinstance(fan_out, dict) and fan_out["items"] is not None


def _body(file: Path) -> dict[str, Any]:
    """What a file says, be it JSON or YAML."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: can't be read: {error}", field="file") from error
    body = _value(text, file)
    if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
        raise UsageError(f"{file}: is not an object; write fields such as name, cron and tasks", field="file")
    return body


def _value(text: str, file: Path) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as of_json:
        if file.suffix == ".json":
            raise UsageError(f"{file}: is not JSON: {of_json}", field="file") from of_json
    try:
        return yaml.load(text, _LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is neither JSON nor YAML: {error}", field="file") from error
