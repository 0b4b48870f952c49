"""Jobs over HTTP: store, list, read, edit, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from shardwheel.api import bodies, examples, views
from shardwheel.api.limits import BATCH_LIMIT_BYTES, MOST_ITEMS, decoded
from shardwheel.api.route import Ask, Reply, Route, Word
from shardwheel.destinations import CallbackRules
from shardwheel.errors import NotFoundError, UsageError
from shardwheel.ids import id_of, text_of
from shardwheel.job import JobState
from shardwheel.posting import JobPosting, parse_posting
from shardwheel.store import alterations
from shardwheel.store.creation import Found, Wish, numbered
from shardwheel.store.creation import create_batch as store_batch
from shardwheel.store.jobs import list_jobs, read_now_ms
from shardwheel.store.link import Connection
from shardwheel.store.page import checked_limit, id_of_cursor, page_of
from shardwheel.times import refuse

MOST_AT_ONCE = 1_000
SMALL_BYTES = 16_384
P = ParamSpec("P")
T = TypeVar("T")

PAGE_WORDS = (
    Word("limit", "How many at most: 1 to 200, else 100.", 50, most=MOST_ITEMS),
    Word("cursor", "`next_cursor` of the page before.", examples.JOB_ID),
)


def whole_words(cursor: str) -> tuple[Word, ...]:
    """Of a list that is answered whole, unless a limit is given."""
    limit = Word("limit", "How many at most: 1 to 200, else all.", 50, most=MOST_ITEMS)
    return limit, PAGE_WORDS[1]._replace(example=cursor)


CREATED_WORDS = (
    Word("from", "Stored at this time or later.", "2026-11-20T00:00:00Z"),
    Word("to", "Stored before this time.", "2026-11-21T00:00:00Z"),
)


async def create(ask: Ask) -> Reply:
    posting = posted(decoded(ask.body), ask.desk.callbacks)
    ask.allowed(posting.task)
    await ask.desk.quotas.admit(ask.tenant, [posting])
    found = await ask.desk.creations.ask(ask.tenant, Wish(posting, ask.actor))
    ask.desk.poke([found.job.partition])
    return Reply(found.as_read(), 201)


async def create_batch(ask: Ask) -> Reply:
    postings = await _aside(len(ask.body), _batch, ask.body, ask.desk.callbacks)
    for posting in postings:
        ask.allowed(posting.task)
    await ask.desk.quotas.admit(ask.tenant, postings)
    wishes = [Wish(posting, ask.actor) for posting in postings]
    found = await ask.desk.pool.run(ask.tenant, store_batch, wishes)
    ask.desk.poke({one.job.partition for one in found})
    return Reply(await _aside(len(ask.body), _shown, found), 201)


async def _aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Large bodies are dealt with in a thread: a moment's work for them, a pause for everybody else."""
    if size > SMALL_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


def _shown(found: Sequence[Found]) -> bytes:
    return msgspec.json.encode({"items": [one.as_read() for one in found], "next_cursor": None})


async def list_(ask: Ask) -> Reply:
    state = ask.query.text("state")
    if state is not None and state not in set(JobState):
        refuse("state", f"{state!r:.40} is unknown", f"choose one of {', '.join(JobState)}")
    words = {name: ask.query.text(name) for name in ("cursor", "task", "tag", "q", "parent")}
    span = ask.query.time_ms("from"), ask.query.time_ms("to")
    return Reply(await ask.desk.much(ask.tenant, _page, ask.query.limit(), state, span, **words))


async def edit(ask: Ask) -> Reply:
    changes = decoded(ask.body)
    if not isinstance(changes, dict) or not changes:
        refuse("body", "is not a JSON object with fields to change", "send what is to change")
    for name in bodies.CREATION_FIELDS:
        if name in changes:
            refuse(name, "belongs to a job's creation", "leave it out")
    await ask.desk.quotas.admit_wish(ask.tenant)
    await ask.desk.quotas.admit_params(ask.tenant, changes.get("params"))
    given = changes, ask.desk.callbacks
    job = await ask.desk.pool.run(ask.tenant, alterations.edit, ask.id, ask.by, *given)
    return await changed(ask, job.partition)


async def delete(ask: Ask) -> Reply:
    job = await ask.desk.pool.run(ask.tenant, alterations.delete, ask.id, ask.by)
    return await changed(ask, job.partition)


async def find(ask: Ask) -> Found:
    found = await ask.desk.readings.ask(ask.tenant, ask.id)
    if found is None:
        raise NotFoundError(f"there is no job {text_of(ask.id)}", field="id")
    return found


async def admit_resume(ask: Ask) -> None:
    """What was paused becomes active: with a limit, that is as if it were stored."""
    found = await ask.desk.readings.ask(ask.tenant, ask.id)
    if found is not None and found.job.state == JobState.PAUSED:
        await ask.desk.quotas.admit_active(ask.tenant)


async def changed(ask: Ask, partition: int, **more: Any) -> Reply:
    """The job after a change that is committed; its owner hears of it."""
    ask.desk.remembered.forget(ask.tenant, ask.id)
    ask.desk.poke([partition])
    return Reply((await find(ask)).as_read() | more)


def posted(body: Any, callbacks: CallbackRules) -> JobPosting:
    if not isinstance(body, dict):
        refuse("body", "is not a JSON object", 'send a job such as {"task": "email.send"}')
    return parse_posting(body, callbacks)


def _batch(body: bytes, callbacks: CallbackRules) -> list[JobPosting]:
    items = decoded(body)
    if not isinstance(items, list) or not items:
        refuse("body", "is not a list of jobs", f"send 1 to {MOST_AT_ONCE} jobs in a JSON array")
    if len(items) > MOST_AT_ONCE:
        refuse("body", f"has {len(items)} jobs", f"send at most {MOST_AT_ONCE} at a time")
    postings: list[JobPosting] = []
    try:
        for item in items:
            postings.append(posted(item, callbacks))
    except UsageError:
        with numbered(len(postings)):
            raise
    return postings


def _page(
    conn: Connection,
    tenant_id: str,
    limit: int,
    state: str | None,
    span: tuple[int | None, int | None],
    *,
    cursor: str | None,
    task: str | None,
    tag: str | None,
    q: str | None,
    parent: str | None,
) -> dict[str, Any]:
    now_ms = read_now_ms(conn)
    after = bytes(16) if cursor is None else id_of_cursor(cursor)
    rows = list_jobs(
        conn,
        tenant_id,
        after=after,
        limit=checked_limit(limit),
        state=state,
        task=task,
        tag=tag,
        text=q,
        parent=None if parent is None else id_of(parent, field="parent"),
        from_ms=span[0],
        until_ms=span[1],
    )
    page = page_of(rows, limit, lambda row: Found(row, now_ms).as_read(), lambda row: text_of(row.job_id))
    return page._asdict()


ROUTES = (
    Route(
        "POST",
        "/jobs",
        create,
        "Store a job",
        "Committed when it is answered. With an `idempotency_key` used in the last 24 hours it answers "
        "with the job that the key made; for another body the key is refused with 409.",
        views.JobView,
        examples.JOB,
        status=201,
        body=bodies.JobBody,
        body_example=examples.JOB_POSTED,
    ),
    Route(
        "POST",
        "/jobs:batch",
        create_batch,
        "Store up to 1,000 jobs, all or none",
        "One transaction. A refusal names the job by its number, such as `[17].cron`. At most 16 MiB.",
        views.JobsMade,
        examples.page(examples.JOB),
        status=201,
        body=list[bodies.JobBody],
        body_example=[examples.JOB_POSTED],
        body_limit=BATCH_LIMIT_BYTES,
    ),
    Route(
        "GET",
        "/jobs",
        list_,
        "List jobs, oldest first",
        "Pages are stable while jobs are added. Deleted jobs are listed only by `state=deleted`.",
        views.JobPage,
        examples.page(examples.JOB),
        query=(
            *PAGE_WORDS,
            Word("state", "As it stands.", "active", tuple(JobState)),
            Word("task", "Of this task type.", "email.send"),
            Word("tag", "With this tag.", "billing"),
            Word("q", "A part of the name or of the task, in any case.", "mail"),
            Word("parent", "Those that run after this job.", examples.JOB_ID),
            *CREATED_WORDS,
        ),
    ),
    Route(
        "PATCH",
        "/jobs/{id}",
        edit,
        "Edit a job",
        "The fields that are sent replace the old ones. Only a change of its timing gives the schedule a new "
        "state; times of the old one that were due already still run.",
        views.JobView,
        examples.JOB,
        body=bodies.JobEdit,
        body_example={"cron": "0 10 * * 1-5", "tags": ["billing", "urgent"]},
    ),
    Route(
        "DELETE",
        "/jobs/{id}",
        delete,
        "Delete a job",
        "Once it is answered nothing of the job starts any more. Said twice, the same.",
        views.JobView,
        examples.JOB | {"state": "deleted", "next_at": None},
    ),
)
