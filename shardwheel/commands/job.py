"""`shardctl job …`: what people say of jobs, straight on the store."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Annotated, Any

import psycopg
import typer

from shardwheel.commands.connection import TENANT, connection
from shardwheel.commands.context import DataOption, current_settings
from shardwheel.commands.reading import json_of
from shardwheel.errors import ConflictError, UsageError
from shardwheel.ids import id_of, text_of
from shardwheel.output import Format, FormatOption, agreed, print_rows, print_thing, shown_time
from shardwheel.posting import PRIORITIES, parse_posting
from shardwheel.store import children, jobs, requests
from shardwheel.store.job_row import JobRow

app = typer.Typer(help="Create, look at and steer jobs.", no_args_is_help=True)

COLUMNS = ["id", "name", "task", "state", "schedule", "next_at"]
JobId = Annotated[str, typer.Argument(help="The job's id.")]


@app.command()
def create(
    task: Annotated[str, typer.Argument(help="The task type: which handler runs it.")],
    params: Annotated[str, typer.Option(help="Params as JSON.")] = "{}",
    name: Annotated[str, typer.Option(help="A name for people.")] = "",
    cron: Annotated[str | None, typer.Option(help="Such as '0 9 * * 1-5'.")] = None,
    every: Annotated[str | None, typer.Option(help="Such as 30s, 5m, 1h.")] = None,
    run_at: Annotated[str | None, typer.Option(help="A time such as 2026-11-20T09:00:00Z.")] = None,
    delay: Annotated[str | None, typer.Option(help="Such as 1.5s: once, that much later.")] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="Of the cron expression, such as Europe/Berlin.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="short, medium or long.")] = None,
    priority: Annotated[str | None, typer.Option(help="critical, high, normal or low.")] = None,
    max_retries: Annotated[int | None, typer.Option(help="Retries after failures.")] = None,
    set_field: Annotated[
        list[str] | None, typer.Option("--set", help="Any other field: FIELD=JSON, e.g. --set timeout_s=5.")
    ] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Store a job. Without a schedule it runs once, now.

    Examples:

        shardctl job create email.send --params '{"to": "a@b.c"}' --cron '0 9 * * 1-5'

        shardctl job create report.build --delay 10s --set 'tags=["billing"]'
    """
    body: dict[str, Any] = {"task": task, "name": name, "params": json_of(params, "params")}
    given = {"cron": cron, "every": every, "run_at": run_at, "delay": delay, "time_zone": time_zone}
    given |= {"pool": pool, "priority": priority, "max_retries": max_retries}  # type: ignore[dict-item]
    body |= {field: value for field, value in given.items() if value is not None}
    posting = parse_posting(body | fields_of(set_field), current_settings(data).callback_rules)
    with connection(data) as conn:
        (job_id,) = children.store_jobs(conn, TENANT, [posting])
        print_job(conn, jobs.get_job(conn, TENANT, job_id), output)


@app.command()
def get(job_id: JobId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Show a job."""
    with connection(data) as conn:
        print_job(conn, jobs.get_job(conn, TENANT, id_of(job_id)), output)


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="active, paused, completed or deleted.")] = None,
    task: Annotated[str | None, typer.Option(help="Of this task type only.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 100,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """List jobs, oldest first."""
    with connection(data) as conn:
        now_ms = jobs.read_now_ms(conn)
        rows = jobs.list_jobs(conn, TENANT, limit=limit, state=state, task=task)
        print_rows([_shown(row, now_ms) for row in rows], COLUMNS, output)


@app.command()
def pause(job_id: JobId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Nothing of the job starts from now on, until it is resumed. Said twice, the same."""
    _change(job_id, data, output, jobs.pause_job)


@app.command()
def resume(job_id: JobId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Let a paused job go on from now."""
    _change(job_id, data, output, jobs.resume_job)


@app.command()
def trigger(
    job_id: JobId,
    params: Annotated[str | None, typer.Option(help="Params for this run, as JSON.")] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Run a job now, paused or not; prints the execution's id."""
    override = None if params is None else json_of(params, "params")
    with connection(data) as conn:
        execution = requests.trigger_job(conn, TENANT, id_of(job_id), uuid.uuid4().bytes, override)
    print_thing({"execution_id": text_of(execution), "job_id": job_id}, output)


@app.command()
def delete(
    job_id: JobId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Delete a job: nothing of it starts any more."""
    with connection(data) as conn:
        job = jobs.get_job(conn, TENANT, id_of(job_id))
        if not yes and not agreed(f"Delete job {job_id} ({job.name or job.task}, {job.state})?"):
            raise ConflictError("nothing was deleted: say --yes, or answer y at the terminal")
        jobs.delete_job(conn, TENANT, job.job_id)
        print_job(conn, jobs.get_job(conn, TENANT, job.job_id), output)


def _change(job_id: str, data: Any, output: Format, change: Callable[[Any, str, bytes], JobRow]) -> None:
    with connection(data) as conn:
        print_job(conn, change(conn, TENANT, id_of(job_id)), output)


def fields_of(pairs: list[str] | None) -> dict[str, Any]:
    """What `--set FIELD=JSON` says."""
    fields: dict[str, Any] = {}
    for pair in pairs or []:
        field, separator, value = pair.partition("=")
        if not separator:
            raise UsageError(f"--set: {pair!r} is not of the form FIELD=JSON", field="set")
        fields[field] = json_of(value, field)
    return fields


def print_job(conn: psycopg.Connection[Any], job: JobRow, output: Format) -> None:
    """Commit what was done, then say so: a reader that hangs up must not undo it."""
    shown = _shown(job, jobs.read_now_ms(conn))
    conn.commit()
    print_thing(shown, output)


def _shown(job: JobRow, now_ms: int) -> dict[str, Any]:
    """A job as people see it."""
    next_ms = job.timing.next_after(max(now_ms, job.effective_from_ms) - 1) if job.state == "active" else None
    return {
        "id": text_of(job.job_id),
        "name": job.name,
        "task": job.task,
        "state": job.state,
        "schedule": job.schedule,
        "next_at": None if next_ms is None else shown_time(next_ms),
        "params": job.params,
        "tags": job.tags,
        "pool": job.pool,
        "priority": PRIORITIES[job.priority],
        "max_retries": job.max_retries,
        "timeout_s": job.timeout_ms / 1000,
        "callback_url": job.callback_url,
        "created_at": shown_time(job.created_ms),
    }
