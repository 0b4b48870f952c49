"""What one asks of a job beside its definition: pause, resume, trigger, backfill, its coming times."""

from __future__ import annotations

from typing import Any

from shardwheel.api import bodies, examples, views
from shardwheel.api.job_page import coming_times, fire_times
from shardwheel.api.jobs import admit_resume, changed, find
from shardwheel.api.route import Ask, Reply, Route, Word
from shardwheel.ids import text_of
from shardwheel.store import alterations
from shardwheel.times import parse_time, refuse

MOST_TIMES = 1_000


async def pause(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    job = await ask.desk.pool.run(ask.tenant, alterations.pause, ask.id, ask.by)
    return await changed(ask, job.partition)


async def resume(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.ResumeBody)
    await admit_resume(ask)
    job, count = await ask.desk.pool.run(
        ask.tenant,
        alterations.resume,
        ask.id,
        ask.by,
        wish.missed,
        checked_key(wish.idempotency_key),
    )
    return await changed(ask, job.partition, backfilled=count)


async def trigger(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.TriggerBody)
    await ask.desk.quotas.admit_wish(ask.tenant)
    await ask.desk.quotas.admit_params(ask.tenant, wish.params)
    execution_id, partition = await ask.desk.pool.run(
        ask.tenant,
        alterations.trigger,
        ask.id,
        ask.by,
        wish.params,
        checked_key(wish.idempotency_key),
    )
    ask.desk.poke([partition])
    run_id = text_of(execution_id)
    return Reply({"id": run_id, "execution_id": run_id, "job_id": text_of(ask.id)}, 202)


async def backfill(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.BackfillBody)
    await ask.desk.quotas.admit_wish(ask.tenant)
    span = parse_time(wish.from_, "from"), parse_time(wish.to, "to")
    count, partition = await ask.desk.pool.run(
        ask.tenant,
        alterations.backfill,
        ask.id,
        ask.by,
        span,
        checked_key(wish.idempotency_key),
    )
    ask.desk.poke([partition])
    return Reply({"id": text_of(ask.id), "job_id": text_of(ask.id), "count": count}, 202)


async def next_times(ask: Ask) -> Reply:
    count = ask.query.number("n", 10, MOST_TIMES)
    found = await find(ask)
    times = coming_times(found, count)
    return Reply({"items": times, "next_cursor": None, "fires_at": fire_times(found, times)})


def checked_key(key: Any) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= 200 or "\0" in key:
        refuse("idempotency_key", f"{key!r:.40} is none", "give 1 to 200 characters, none of them NUL")
    return key


ROUTES = (
    Route(
        "POST",
        "/jobs/{id}:pause",
        pause,
        "Pause a job",
        "Once it is answered nothing of the job starts but what is triggered. Said twice, the same.",
        views.JobView,
        examples.JOB | {"state": "paused", "next_at": None},
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/jobs/{id}:resume",
        resume,
        "Let a paused job go on",
        "From now on; `missed` says what becomes of the times of the pause. With an `idempotency_key`, the "
        "same key again resumes nothing and answers with the same count; with another `missed` it is refused "
        "with 409.",
        views.ResumedView,
        examples.JOB | {"backfilled": 1},
        body=bodies.ResumeBody,
        body_example={"missed": "one"},
    ),
    Route(
        "POST",
        "/jobs/{id}:trigger",
        trigger,
        "Run a job now",
        "Paused or not. With an `idempotency_key`, the same key again answers with the same execution; with "
        "other params the key is refused with 409. `id` and `execution_id` are the same.",
        views.TriggeredView,
        {"id": examples.EXECUTION_ID, "execution_id": examples.EXECUTION_ID, "job_id": examples.JOB_ID},
        status=202,
        body=bodies.TriggerBody,
        body_example={"params": {"to": "d@e.f"}, "idempotency_key": "month-end"},
    ),
    Route(
        "POST",
        "/jobs/{id}:backfill",
        backfill,
        "Run the times of a span that did not run",
        "Times without an execution get one, skipped ones are queued again; what ran is left alone. A "
        "million at once at most. With an `idempotency_key`, the same key again fills nothing more; with "
        "another span it is refused with 409.",
        views.BackfilledView,
        {"id": examples.JOB_ID, "job_id": examples.JOB_ID, "count": 14},
        status=202,
        body=bodies.BackfillBody,
        body_example={"from": "2026-11-01T00:00:00Z", "to": "2026-11-20T00:00:00Z"},
    ),
    Route(
        "GET",
        "/jobs/{id}/next",
        next_times,
        "The coming times of a job",
        "None while it is not active.",
        views.NextView,
        {
            "items": ["2026-11-20T08:00:00.000Z", "2026-11-23T08:00:00.000Z"],
            "next_cursor": None,
            "fires_at": ["2026-11-20T08:00:00.000Z", "2026-11-23T08:00:00.000Z"],
        },
        query=(Word("n", "How many: 1 to 1,000, else 10.", 2, most=MOST_TIMES),),
    ),
)
