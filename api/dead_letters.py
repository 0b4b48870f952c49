"""Dead letters over HTTP: list, read, redrive and discard, singly and by filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shardwheel.api import bodies, examples, views
from shardwheel.api.jobs import PAGE_WORDS
from shardwheel.api.route import Ask, Reply, Route, Word, paged
from shardwheel.ids import id_of, partition_of_id, text_of
from shardwheel.metrics import tell_run_ends
from shardwheel.partition import PARTITIONS
from shardwheel.store import letter_requests
from shardwheel.store.audit import Actor
from shardwheel.store.letter_requests import (
    AT_ONCE,
    Dealt,
    Redriven,
    discard_letter,
    discard_some,
    redrive_some,
)
from shardwheel.store.letters import (
    LETTER_STATES,
    LetterFilter,
    count_letters,
    get_letter,
    list_letters,
    read_letter,
)
from shardwheel.store.link import Connection
from shardwheel.times import parse_time, refuse


async def list_(ask: Ask) -> Reply:
    query = ask.query
    job_id, state = query.text("job_id"), query.text("state", "open")
    wanted = LetterFilter(
        state=None if state == "all" else state,
        task=query.text("task"),
        reason=query.text("reason"),
        error_class=query.text("class"),
        job_id=None if job_id is None else id_of(job_id, field="job_id"),
        tag=query.text("tag"),
        text=query.text("q"),
        from_ms=query.time_ms("from"),
        until_ms=query.time_ms("to"),
    )
    return await paged(ask, list_letters, wanted)


async def get(ask: Ask) -> Reply:
    return Reply(await ask.desk.pool.run(ask.tenant, get_letter, ask.id))


async def redrive(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.RedriveBody)
    await ask.desk.quotas.admit_wish(ask.tenant)
    await ask.desk.quotas.admit_params(ask.tenant, wish.params)

    def work(conn: Connection, tenant_id: str) -> Redriven:
        row, _ = read_letter(conn, tenant_id, ask.id)
        ask.allowed(row.task)
        return letter_requests.redrive(conn, tenant_id, ask.id, ask.actor, wish.params)

    redriven = await ask.desk.pool.run(ask.tenant, work)
    tell_run_ends(redriven.resolved.ends)
    ask.desk.poke([partition_of_id(redriven.execution_id)])
    return Reply({"id": text_of(ask.id), "execution_id": text_of(redriven.execution_id)}, 202)


async def discard(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)

    def work(conn: Connection, tenant_id: str) -> None:
        row, _ = read_letter(conn, tenant_id, ask.id)
        ask.allowed(row.task)
        discard_letter(conn, tenant_id, ask.id, ask.actor)

    await ask.desk.pool.run(ask.tenant, work)
    return Reply({"id": text_of(ask.id), "state": "discarded"})


async def redrive_by_filter(ask: Ask) -> Reply:
    ask.refuse_limited("a redrive by filter")
    await ask.desk.quotas.admit_wish(ask.tenant)
    reply = await _deal(ask, redrive_some)
    if reply.value["done"]:
        ask.desk.poke(range(PARTITIONS))
    return reply


async def discard_by_filter(ask: Ask) -> Reply:
    ask.refuse_limited("a discard by filter")
    return await _deal(ask, discard_some)


async def _deal(ask: Ask, some: Callable[..., Dealt]) -> Reply:
    """Page by page, a transaction each: a filter may mean many."""
    wish = bodies.read_body(ask.body, bodies.LettersBody)
    wanted = _wanted(wish)
    if wish.dry_run:
        count = await ask.desk.pool.run(ask.tenant, count_letters, wanted)
        return Reply({"done": 0, "refused": {}, "next_cursor": None, "count": count})
    done, refused, cursor = 0, Counter[str](), wish.cursor
    while True:
        given = some, wanted, ask.actor, cursor, wish.limit or AT_ONCE
        dealt = await ask.desk.pool.run(ask.tenant, _some, *given)
        tell_run_ends(dealt.resolved.ends)
        done += dealt.done
        refused.update(dealt.refused)
        cursor = dealt.next_cursor
        if cursor is None or wish.limit is not None:
            return Reply({"done": done, "refused": dict(refused), "next_cursor": cursor, "count": None})


def _some(
    conn: Connection,
    tenant_id: str,
    some: Callable[..., Dealt],
    wanted: LetterFilter,
    actor: Actor,
    cursor: str | None,
    at_once: int,
) -> Dealt:
    return some(conn, tenant_id, wanted, actor, cursor=cursor, at_once=at_once)


def _wanted(wish: bodies.LettersBody) -> LetterFilter:
    wanted = LetterFilter(
        task=wish.task,
        reason=wish.reason,
        error_class=wish.class_,
        job_id=None if wish.job_id is None else id_of(wish.job_id, field="job_id"),
        tag=wish.tag,
        text=wish.q,
        from_ms=None if wish.from_ is None else parse_time(wish.from_, "from"),
        until_ms=None if wish.to is None else parse_time(wish.to, "to"),
    )
    if (wanted == LetterFilter()) != wish.all_:
        refuse("all", "must be true without a filter, and only then", "say which letters, or all")
    return wanted


FILTER_EXAMPLE = {"task": "email.send", "class": "SMTPServerDisconnected"}
ROUTES = (
    Route(
        "GET",
        "/dead-letters",
        list_,
        "List dead letters, latest first",
        "Open ones, if no `state` is given.",
        views.LetterPage,
        examples.page(examples.LETTER),
        query=(
            *PAGE_WORDS,
            Word("state", "As it stands, or all.", "open", (*LETTER_STATES, "all")),
            Word("task", "Of this task type.", "email.send"),
            Word("reason", "Why it was given up.", "retries_exhausted"),
            Word("class", "The error's class.", "SMTPServerDisconnected"),
            Word("job_id", "Of this job.", examples.JOB_ID),
            Word("tag", "Whose job had this tag.", "billing"),
            Word("q", "A part of the task, the error's class or its message, in any case.", "timed out"),
            Word("from", "Given up at this time or later.", "2026-11-20T00:00:00Z"),
            Word("to", "Given up before this time.", "2026-11-21T00:00:00Z"),
        ),
    ),
    Route(
        "GET",
        "/dead-letters/{id}",
        get,
        "Read a dead letter",
        "With everything that is needed to understand and replay it.",
        views.Letter,
        examples.LETTER,
    ),
    Route(
        "POST",
        "/dead-letters/{id}:redrive",
        redrive,
        "Run a dead letter again",
        "A new execution of its job; of a DAG's task its next attempt, and its run goes on. Said twice, "
        "the same execution.",
        views.RedrivenView,
        {"id": examples.LETTER_ID, "execution_id": examples.EXECUTION_ID},
        status=202,
        body=bodies.RedriveBody,
        body_example={"params": {"to": "d@e.f"}},
    ),
    Route(
        "POST",
        "/dead-letters/{id}:discard",
        discard,
        "Let a dead letter be",
        "Nobody will run it again. Said twice, the same.",
        views.DiscardedView,
        {"id": examples.LETTER_ID, "state": "discarded"},
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/dead-letters:redrive",
        redrive_by_filter,
        "Run dead letters again, by filter",
        "Of the open ones. A token that is limited to some task types may not.",
        views.DealtView,
        {"done": 12, "refused": {"job_deleted": 1}, "next_cursor": None, "count": None},
        body=bodies.LettersBody,
        body_example=FILTER_EXAMPLE,
    ),
    Route(
        "POST",
        "/dead-letters:discard",
        discard_by_filter,
        "Let dead letters be, by filter",
        "Of the open ones. A token that is limited to some task types may not.",
        views.DealtView,
        {"done": 12, "refused": {}, "next_cursor": None, "count": None},
        body=bodies.LettersBody,
        body_example=FILTER_EXAMPLE,
    ),
)
