"""`shardctl import crontab | celery-beat | apscheduler`: jobs of another scheduler, shown first or made."""

from __future__ import annotations

import sys
import time
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from shardwheel.commands.job import schedule_of
from shardwheel.commands.reading import text_of_file
from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import UsageError
from shardwheel.importing.apscheduler_dump import read_apscheduler_dump
from shardwheel.importing.apscheduler_jobs import read_apscheduler
from shardwheel.importing.celery_beat import read_celery_beat
from shardwheel.importing.celery_dump import read_celery_dump
from shardwheel.importing.crontab import Reading, is_system_file, read_crontab
from shardwheel.importing.imported import Imported
from shardwheel.output import Format

app = noun("Bring jobs over from another scheduler. Nothing of what is read is ever run.")
MOST_AT_ONCE = 1_000

SourceFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file to read; - for standard input.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be made of each entry.")]
ZoneOption = Annotated[
    str | None, typer.Option("--time-zone", help="Of entries that name none, such as Europe/Berlin.")
]


@verb(app)
def crontab(
    at: Terminal,
    file: SourceFile,
    dry_run: DryRun = False,
    task: Annotated[
        str, typer.Option(help="The task type whose handler runs the commands: write one of your own.")
    ] = "shell.run",
    time_zone: ZoneOption = None,
    system: Annotated[
        bool, typer.Option("--system", help="A user stands before each command, as in /etc/crontab.")
    ] = False,
) -> None:
    """Read a crontab: each command becomes the params of a task that you write a handler for.

    Examples:

        crontab -l | shardctl import crontab - --dry-run --time-zone Europe/Berlin

        shardctl import crontab /etc/crontab -o yaml > jobs.yaml
    """
    is_system = system or is_system_file(str(file))
    finish(at, read_crontab(text_of_file(file), Reading(task, time_zone, is_system), _now_ms()), dry_run)


@verb(app, "celery-beat")
def celery_beat(
    at: Terminal, file: SourceFile, dry_run: DryRun = False, time_zone: ZoneOption = None
) -> None:
    """Read a Celery beat schedule: a Python file, which is not run, or a dump of django_celery_beat as JSON.

    Examples:

        shardctl import celery-beat proj/celery.py --dry-run

        manage.py dumpdata django_celery_beat | shardctl import celery-beat - -o yaml > jobs.yaml
    """
    text = text_of_file(file)
    dump = _json(text)
    if isinstance(dump, list):
        found = read_celery_dump(dump, time_zone, _now_ms())
    else:
        found = read_celery_beat(text, str(file), time_zone, _now_ms())
    finish(at, found, dry_run)


@verb(app)
def apscheduler(
    at: Terminal, file: SourceFile, dry_run: DryRun = False, time_zone: ZoneOption = None
) -> None:
    """Read APScheduler's jobs: a Python file with `add_job`, which is not run, or what `export_jobs` wrote.

    Examples:

        shardctl import apscheduler jobs.json --dry-run

        shardctl import apscheduler app/schedule.py
    """
    text = text_of_file(file)
    dump = _json(text)
    if isinstance(dump, dict) and isinstance(dump.get("jobs"), list):
        found = read_apscheduler_dump(dump, time_zone, _now_ms())
    else:
        found = read_apscheduler(text, str(file), time_zone, _now_ms())
    finish(at, found, dry_run)


def finish(at: Terminal, found: list[Imported], dry_run: bool) -> None:
    """Show what became of each; `-o yaml` is a file for `shardctl job apply`, and makes nothing."""
    if not found:
        raise UsageError("file: there is nothing in it that could be read as a schedule", field="file")
    jobs = [one.job for one in found if one.job is not None]
    refused = [one for one in found if one.job is None]
    if at.output is Format.yaml:
        for one in found:
            for words in filter(None, (one.refused, *(f"note: {note}" for note in one.notes))):
                sys.stderr.write(f"{one.source}: {words}\n")
        at.show({"jobs": jobs})
        return
    made = [] if dry_run else _made(at, jobs)
    if at.is_for_people:
        _print(at, found, made, dry_run)
        return
    at.show(
        {
            "dry_run": dry_run,
            "jobs": [
                {"source": one.source, "job": one.job, "notes": list(one.notes)} for one in found if one.job
            ],
            "refused": [
                {"source": one.source, "reason": one.refused, "notes": list(one.notes)} for one in refused
            ],
            "created": [job["id"] for job in made],
        }
    )


def _made(at: Terminal, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All or none of a thousand; the same entry again is the same job, for a day."""
    made: list[dict[str, Any]] = []
    for begin in range(0, len(jobs), MOST_AT_ONCE):
        made += stored(at, jobs[begin : begin + MOST_AT_ONCE])
    return made


def stored(at: Terminal, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One that was imported and deleted since is made anew: its key, too, is the same each time."""
    made = at.api.make_all([_keyed(job, "") for job in jobs])
    while gone := [number for number, one in enumerate(made) if one["state"] == "deleted"]:
        again = at.api.make_all([_keyed(jobs[number], made[number]["id"]) for number in gone])
        for number, one in zip(gone, again, strict=True):
            made[number] = one
    return made


def _keyed(job: dict[str, Any], deleted_id: str) -> dict[str, Any]:
    content = msgspec.json.encode([job, deleted_id] if deleted_id else job, order="deterministic")
    return job | {"idempotency_key": f"import-{blake2b(content, digest_size=12).hexdigest()}"}


def _print(at: Terminal, found: list[Imported], made: list[dict[str, Any]], dry_run: bool) -> None:
    for one in found:
        job = one.job or {}
        mark = "would make" if dry_run else "made"
        head = (
            f"{mark} {job['name']!r}: {job['task']}, {schedule_of(job)}" if job else f"can't: {one.refused}"
        )
        typer.echo(f"{one.source}: {head}")
        for note in one.notes:
            typer.echo(f"    note: {note}")
    refused = sum(one.job is None for one in found)
    typer.echo(f"{len(found) - refused} of {len(found)} entries {'can be' if dry_run else 'are'} jobs now.")


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _now_ms() -> int:
    return int(time.time() * 1000)
