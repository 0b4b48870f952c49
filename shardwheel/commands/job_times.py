"""`shardctl job next`: the coming times by the job's own clock and in UTC, days of a changed clock marked.

Pure but for the verb itself: what a zone does on a day is computed here.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Annotated, Any

import typer

from shardwheel.commands.job import JobId
from shardwheel.commands.verbs import Terminal
from shardwheel.zone import zone_of

COLUMNS = ["local", "scheduled_at", "clocks", "fires_at"]


def next_times(
    at: Terminal,
    job_id: JobId,
    count: Annotated[int, typer.Option("-n", "--count", help="How many.", min=1, max=1_000)] = 10,
) -> None:
    """The times at which a job will run, in its zone and in UTC, and when each fires, jitter and all. None
    while it is not active. Days on which the clocks of its zone change are marked.

    Example:

        shardctl job next $JOB -n 5
    """
    job = at.api.get("/jobs/{}", job_id)
    found = at.api.get("/jobs/{}/next", job_id, n=count)
    zone = zone_of(job.get("time_zone") or "UTC").info
    pairs = zip(found["items"], found["fires_at"], strict=True)
    rows = [shown(datetime.fromisoformat(when), zone) | {"fires_at": fires} for when, fires in pairs]
    columns = [column for column in COLUMNS if column != "clocks" or any(row["clocks"] for row in rows)]
    if not rows:
        sys.stderr.write(f"none to come: the job is {job['state']}; see: shardctl explain {job_id}\n")
    at.rows(rows, columns)


def shown(when: datetime, zone: tzinfo) -> dict[str, Any]:
    local = when.astimezone(zone)
    return {
        "scheduled_at": when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "local": f"{local:%a} {local.isoformat(sep=' ', timespec='seconds')}",
        "clocks": clock_change(local),
    }


def clock_change(local: datetime) -> str | None:
    """What the clocks do on this day in its zone: the usual case is nothing."""
    midnight = datetime.combine(local.date(), time(), local.tzinfo)
    before, after = (
        midnight.utcoffset(),
        datetime.combine(local.date() + timedelta(days=1), time(), local.tzinfo).utcoffset(),
    )
    if before is None or after is None or before == after:
        return None
    minutes = round((after - before).total_seconds() / 60)
    return f"clocks go {'forward' if minutes > 0 else 'back'} {abs(minutes)} min"
