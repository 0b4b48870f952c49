"""A job's page: how it stands, and on demand what comes next, what ran last, and what was skipped and why.

How it stands alone is what programs ask for thousands of times a second, so that is remembered for a moment
and shares its transactions; the rest is for people.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from shardwheel.api import examples, views
from shardwheel.api.jobs import find
from shardwheel.api.route import Ask, Reply, Route, Word
from shardwheel.missed import fire_time
from shardwheel.output import shown_time
from shardwheel.store.creation import Found
from shardwheel.store.executions import ExecutionFilter, list_executions
from shardwheel.store.link import Connection
from shardwheel.store.skips import skips_of_job
from shardwheel.times import END_MS, parse_time, refuse

SHOWN = 10


async def get(ask: Ask) -> Reply:
    full = ask.query.text("full", "false")
    if full not in ("true", "false"):
        refuse("full", f"{full!r:.40} is neither", "give true or false")
    if full == "true":
        found = await find(ask)
        past = await ask.desk.much(ask.tenant, _past, ask.id)
        return Reply(found.as_read() | {"next_times": coming_times(found, SHOWN)} | past)
    answer = ask.desk.remembered.get(ask.tenant, ask.id)
    if answer is None:
        begun_at_s = ask.desk.remembered.now_s()
        answer = msgspec.json.encode((await find(ask)).as_read())
        ask.desk.remembered.keep(ask.tenant, ask.id, answer, begun_at_s)
    return Reply(answer)


def coming_times(found: Found, count: int) -> list[str]:
    """The next scheduled times; none while the job is not active."""
    job, now_ms = found
    if job.state != "active":
        return []
    times = job.timing.times_between(max(now_ms, job.effective_from_ms) - 1, END_MS - 1)
    return [shown_time(time_ms) for time_ms in islice(times, count)]


def fire_times(found: Found, times: list[str]) -> list[str]:
    """When each of these times fires, jitter and all."""
    job, timing = found.job, found.job.timing
    scheduled = [parse_time(time, "time") for time in times]
    given = [(timing.schedule, job.job_id, at_ms, timing.anchor_ms, job.jitter_ms) for at_ms in scheduled]
    return [shown_time(fire_time(*one)) for one in given]


def _past(conn: Connection, tenant_id: str, job_id: bytes) -> dict[str, Any]:
    executions = list_executions(conn, tenant_id, ExecutionFilter(job_id=job_id), limit=SHOWN)
    return {"executions": executions.items, "skips": skips_of_job(conn, tenant_id, job_id, SHOWN)}


FULL = Word("full", "true: with what comes next, what ran and what was skipped.", "true", ("true", "false"))
ROUTES = (
    Route(
        "GET",
        "/jobs/{id}",
        get,
        "Read a job",
        "As it stands, with its policies' defaults filled in and its next scheduled time. With `full=true` "
        "also the next 10 times, the last 10 executions, and the last 10 skips with their reasons.",
        views.FullJobView,
        examples.JOB
        | {
            "next_times": ["2026-11-20T08:00:00.000Z", "2026-11-23T08:00:00.000Z"],
            "executions": [examples.EXECUTION],
            "skips": [examples.SKIP],
        },
        query=(FULL,),
    ),
)
