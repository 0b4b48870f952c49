"""`shardctl job …`: what people say of jobs. Its JSON is what the API answers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shardwheel.commands.filters import (
    AllOption,
    CursorOption,
    DryRunOption,
    JobFilterOption,
    ManyOption,
    YesOption,
)
from shardwheel.commands.job_bulk import JobTarget, one_or_each
from shardwheel.commands.reading import json_of
from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import UsageError

app = noun("Create, look at and steer jobs.")

BRIEF = ["id", "name", "task", "params", "tags", "parents", "state", "schedule", "next_at"]
COLUMNS = ["id", "name", "state", "schedule", "next_at", "task"]
JobId = Annotated[str, typer.Argument(help="The job's id.")]
SomeJobId = Annotated[str | None, typer.Argument(help="The job's id; or say --filter or --all.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other field: FIELD=JSON, e.g. --set timeout_s=5; several times."),
]


@verb(app)
def create(
    at: Terminal,
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
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given several times.")] = None,
    set_field: SetOption = None,
) -> None:
    """Store a job. Without a schedule it runs once, now.

    Examples:

        shardctl job create email.send --params '{"to": "a@b.c"}' --cron '0 9 * * 1-5'

        shardctl job create report.build --delay 10s --tag billing --set timeout_s=120
    """
    body: dict[str, Any] = {"task": task, "name": name, "params": json_of(params, "params")}
    given = {"cron": cron, "every": every, "run_at": run_at, "delay": delay, "time_zone": time_zone}
    more = {"pool": pool, "priority": priority, "max_retries": max_retries, "tags": tag}
    body |= {field: value for field, value in (given | more).items() if value is not None}
    job = at.api.make("/jobs", body=body | fields_of(set_field))
    at.show(in_brief(job) if at.is_for_people else job)


@verb(app)
def get(
    at: Terminal,
    job_id: JobId,
    full: Annotated[
        bool, typer.Option("--full", help="With its next times, last executions and skips.")
    ] = False,
) -> None:
    """Show a job.

    Example:

        shardctl job get 0193… -o yaml
    """
    at.show(at.api.get("/jobs/{}", job_id, full=True if full else None))


@verb(app, "list")
def list_(
    at: Terminal,
    state: Annotated[str | None, typer.Option(help="active, paused, completed or deleted.")] = None,
    task: Annotated[str | None, typer.Option(help="Of this task type only.")] = None,
    tag: Annotated[str | None, typer.Option(help="With this tag only.")] = None,
    q: Annotated[str | None, typer.Option("-q", "--query", help="A part of the name or the task.")] = None,
    limit: ManyOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List jobs, oldest first. Deleted ones only with --state deleted.

    Examples:

        shardctl job list --task email.send --state paused

        shardctl job list --tag billing -o json
    """
    words = {"state": state, "task": task, "tag": tag, "q": q, "cursor": cursor}
    found = at.api.some("/jobs", limit=limit + 1, **words)
    rows = [job | {"schedule": schedule_of(job)} for job in found[:limit]]
    at.rows(rows, COLUMNS)
    if len(found) > limit:
        typer.echo(f"there are more: --cursor {rows[-1]['id']}", err=True)


@verb(app)
def update(at: Terminal, job_id: JobId, set_field: SetOption = None) -> None:
    """Change fields of a job; the others stay. A new schedule holds from now on.

    Examples:

        shardctl job update $JOB --set timeout_s=120 --set 'overlap="queue"'

        shardctl job update $JOB --set 'cron="0 9 * * 1-5"'
    """
    changes = fields_of(set_field)
    if not changes:
        raise UsageError("set: nothing is to change; name fields with --set FIELD=JSON", field="set")
    at.show(at.api.patch("/jobs/{}", job_id, body=changes))


@verb(app)
def pause(
    at: Terminal,
    job_id: SomeJobId = None,
    filters: JobFilterOption = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Nothing of the job starts from now on, until it is resumed. Said twice, the same.

    Examples:

        shardctl job pause 0193…

        shardctl job pause --filter tag=billing --yes
    """
    one_or_each(
        at,
        JobTarget(job_id, filters, all_, "active"),
        ("pause", "paused"),
        lambda one: at.api.post("/jobs/{}:pause", one),
        dry_run=dry_run,
        yes=yes,
    )


@verb(app)
def resume(
    at: Terminal,
    job_id: SomeJobId = None,
    missed: Annotated[
        str, typer.Option(help="Of the times of the pause: skip them, run one, or all.")
    ] = "skip",
    filters: JobFilterOption = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Let a paused job go on from now. Said twice, the same.

    Examples:

        shardctl job resume 0193… --missed one

        shardctl job resume --all --yes
    """
    body = {"missed": missed}
    one_or_each(
        at,
        JobTarget(job_id, filters, all_, "paused"),
        ("resume", "resumed"),
        lambda one: at.api.post("/jobs/{}:resume", one, body=body),
        dry_run=dry_run,
        yes=yes,
    )


@verb(app)
def delete(
    at: Terminal,
    job_id: SomeJobId = None,
    filters: JobFilterOption = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Delete a job: nothing of it starts any more. Said twice, the same.

    Examples:

        shardctl job delete 0193… --yes

        shardctl job delete --filter task=report.build --dry-run
    """
    target = JobTarget(job_id, filters, all_, None)
    if job_id is not None and target.is_one and not dry_run:
        job = at.api.get("/jobs/{}", job_id)
        told = f"{job['name'] or job['task']}, {job['state']}"
        at.agree(f"Delete job {job_id} ({told})?", "deleted", yes)
    one_or_each(
        at,
        target,
        ("delete", "deleted"),
        lambda one: at.api.delete("/jobs/{}", one),
        dry_run=dry_run,
        yes=yes,
    )


@verb(app)
def trigger(
    at: Terminal,
    job_id: JobId,
    params: Annotated[str | None, typer.Option(help="Params for this run, as JSON.")] = None,
) -> None:
    """Run a job now, paused or not; prints the execution's id.

    Example:

        shardctl job trigger 0193… --params '{"month": "2026-10"}'
    """
    body = {} if params is None else {"params": json_of(params, "params")}
    at.show(at.api.make("/jobs/{}:trigger", job_id, body=body))


@verb(app)
def backfill(
    at: Terminal,
    job_id: JobId,
    first: Annotated[str, typer.Option("--from", help="From this time on, such as 2026-11-20T09:00:00Z.")],
    last: Annotated[str, typer.Option("--to", help="Up to this time, included.")],
) -> None:
    """Run the times of a past span that have no execution, and those that were skipped. What ran does not run
    again. Prints how many times the span holds; they are fired at a limited rate.

    Example:

        shardctl job backfill $JOB --from 2026-11-18T00:00:00Z --to 2026-11-18T12:00:00Z
    """
    at.show(at.api.make("/jobs/{}:backfill", job_id, body={"from": first, "to": last}))


def fields_of(pairs: list[str] | None) -> dict[str, Any]:
    """What `--set FIELD=JSON` says."""
    fields: dict[str, Any] = {}
    for pair in pairs or []:
        field, separator, value = pair.partition("=")
        if not separator:
            raise UsageError(
                f"--set: {pair!r} is not of the form FIELD=JSON; write one such as timeout_s=5", field="set"
            )
        fields[field] = json_of(value, field)
    return fields


def in_brief(job: dict[str, Any]) -> dict[str, Any]:
    """What somebody who has just made a job wants to see of it; `job get` has all of it."""
    known = job | {"schedule": schedule_of(job)}
    return {name: known[name] for name in BRIEF if known.get(name)}


def schedule_of(job: dict[str, Any]) -> str:
    """When it runs, in a few words."""
    if job.get("cron"):
        zone = job.get("time_zone") or "UTC"
        return str(job["cron"]) if zone == "UTC" else f"{job['cron']} {zone}"
    if job.get("every"):
        return f"every {job['every']}"
    if job.get("parents"):
        return "after its parents"
    return f"once {job['run_at']}" if job.get("run_at") else "by trigger"
