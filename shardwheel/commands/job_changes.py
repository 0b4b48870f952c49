"""`shardctl job update | next | backfill`: what `shardctl explain` tells people to do about a job's times."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from shardwheel.commands.connection import TENANT, connection
from shardwheel.commands.context import DataOption
from shardwheel.commands.job import JobId, fields_of, print_job
from shardwheel.errors import UsageError
from shardwheel.ids import id_of
from shardwheel.job import JobState
from shardwheel.missed import fire_time
from shardwheel.output import Format, FormatOption, print_rows, print_thing, shown_time
from shardwheel.store import jobs, requests
from shardwheel.store.job_row import JobRow
from shardwheel.times import parse_time

NEXT_COLUMNS = ["scheduled_at", "fires_at"]


def update_job(
    job_id: JobId,
    set_field: Annotated[
        list[str] | None, typer.Option("--set", help="A field: FIELD=JSON; may be given several times.")
    ] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Change fields of a job; the others stay. A new schedule holds from now on.

    Examples:

        shardctl job update $JOB --set timeout_s=120 --set 'overlap="queue"'

        shardctl job update $JOB --set 'cron="0 9 * * 1-5"'
    """
    changes = fields_of(set_field)
    if not changes:
        raise UsageError("set: nothing is to change; name fields with --set FIELD=JSON", field="set")
    with connection(data) as conn:
        print_job(conn, jobs.edit_job(conn, TENANT, id_of(job_id), changes), output)


def next_times(
    job_id: JobId,
    count: Annotated[int, typer.Option("-n", "--count", help="How many.", min=1, max=1_000)] = 10,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """The times at which a job will run, and when each fires, jitter and all. None while it is not active.

    Example:

        shardctl job next $JOB -n 5
    """
    with connection(data) as conn:
        now_ms = jobs.read_now_ms(conn)
        job = jobs.get_job(conn, TENANT, id_of(job_id))
    times = itertools.islice(_times_after(job, now_ms), count) if job.state == JobState.ACTIVE else ()
    print_rows([_shown_time(job, at_ms) for at_ms in times], NEXT_COLUMNS, output)


def backfill_job(
    job_id: JobId,
    first: Annotated[str, typer.Option("--from", help="From this time on, such as 2026-11-20T09:00:00Z.")],
    last: Annotated[str, typer.Option("--to", help="Up to this time, included.")],
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Run the times of a past span that have no execution, and those that were skipped. What ran does not run
    again. Prints how many times the span holds; they are fired at a limited rate.

    Example:

        shardctl job backfill $JOB --from 2026-11-18T00:00:00Z --to 2026-11-18T12:00:00Z
    """
    span = parse_time(first, "from"), parse_time(last, "to")
    with connection(data) as conn:
        times = requests.backfill_job(conn, TENANT, id_of(job_id), uuid.uuid4().bytes, *span)
    print_thing({"job_id": job_id, "times": times}, output)


def _times_after(job: JobRow, now_ms: int) -> Iterator[int]:
    at_ms: int | None = max(now_ms, job.effective_from_ms - 1)
    while at_ms is not None and (at_ms := job.timing.next_after(at_ms)) is not None:
        yield at_ms


def _shown_time(job: JobRow, at_ms: int) -> dict[str, Any]:
    timing = job.timing
    fires_ms = fire_time(timing.schedule, job.job_id, at_ms, timing.anchor_ms, job.jitter_ms)
    return {"scheduled_at": shown_time(at_ms), "fires_at": shown_time(fires_ms)}
