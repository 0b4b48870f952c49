"""Executions over HTTP: list, read with their attempts, cancel."""

from __future__ import annotations

from typing import Any

from shardwheel.api import bodies, examples, views
from shardwheel.api.jobs import PAGE_WORDS, find, whole_words
from shardwheel.api.route import Ask, Reply, Route, Word, paged, sliced
from shardwheel.execution import ExecutionState
from shardwheel.explaining import shown_explanation
from shardwheel.explanation import Facts
from shardwheel.ids import id_of, partition_of_id
from shardwheel.metrics import tell_run_ends
from shardwheel.store.dag_alterations import cancel_execution
from shardwheel.store.executions import ExecutionFilter, existing, get_logs, list_executions
from shardwheel.store.explain import read_facts
from shardwheel.store.page import number_of_cursor

MOST_ATTEMPTS = 1_000_000

SPAN_WORDS = (
    Word("from", "Scheduled at this time or later.", "2026-11-20T00:00:00Z"),
    Word("to", "Scheduled before this time.", "2026-11-21T00:00:00Z"),
)
STATE_WORDS = (
    Word("state", "As it stands.", "succeeded", tuple(ExecutionState)),
    Word("reason", "Why it is held, skipped or dead.", "paused"),
    Word("origin", "schedule, settled, trigger, backfill, dag or redrive.", "trigger"),
)


async def list_(ask: Ask) -> Reply:
    query, job = ask.query, ask.query.text("job_id")
    job_id = None if job is None else id_of(job, field="job_id")
    words = {"task": query.text("task"), "tag": query.text("tag"), "text": query.text("q")}
    return await paged(ask, list_executions, _wanted(ask, job_id=job_id, **words))


async def list_of_job(ask: Ask) -> Reply:
    await find(ask)
    return await paged(ask, list_executions, _wanted(ask, job_id=ask.id))


async def get(ask: Ask) -> Reply:
    return Reply(existing(ask.id, await ask.desk.executions.ask(ask.tenant, ask.id)))


async def logs(ask: Ask) -> Reply:
    attempt = ask.query.number("attempt", 0, MOST_ATTEMPTS) or None
    lines = await ask.desk.pool.run(ask.tenant, get_logs, ask.id, attempt)
    return sliced(ask, lines, _line_of_cursor)


async def explain(ask: Ask) -> Reply:
    return Reply(shown_explanation(await _facts(ask)))


async def explain_job(ask: Ask) -> Reply:
    await find(ask)
    return await explain(ask)


async def _facts(ask: Ask) -> Facts:
    """Who owns its partition is known a second late at most; without etcd or Kafka the answer is vaguer."""
    facts = await ask.desk.pool.run(ask.tenant, read_facts, ask.id)
    view = ask.desk.look()
    if view is not None:
        holder = view.owners.get(facts.job.partition)
        facts = facts.owned_by(None if holder is None else holder.shard_id)
    if facts.is_published:
        facts = facts._replace(pool_lag=await ask.desk.lags.of(facts.job.pool))
    return facts


async def cancel(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.CancelBody)
    job_id = None if wish.job_id is None else id_of(wish.job_id, field="job_id")
    cancelled = await ask.desk.pool.run(ask.tenant, cancel_execution, ask.id, ask.by, job_id)
    tell_run_ends(cancelled.resolved.ends)
    if cancelled.outcome != "already_done":
        # A slot may be free now, or a task's children wait.
        ask.desk.poke([partition_of_id(ask.id)])
    return Reply({"outcome": cancelled.outcome})


def _line_of_cursor(cursor: str) -> tuple[int, int]:
    attempt, _, number = cursor.partition(".")
    return number_of_cursor(attempt), number_of_cursor(number)


def _wanted(ask: Ask, **more: Any) -> ExecutionFilter:
    query = ask.query
    return ExecutionFilter(
        state=query.text("state"),
        reason=query.text("reason"),
        origin=query.text("origin"),
        from_ms=query.time_ms("from"),
        until_ms=query.time_ms("to"),
        **more,
    )


ROUTES = (
    Route(
        "GET",
        "/jobs/{id}/executions",
        list_of_job,
        "The executions of a job, latest first",
        "By scheduled time.",
        views.ExecutionPage,
        examples.page(examples.EXECUTION),
        query=(*PAGE_WORDS, *STATE_WORDS, *SPAN_WORDS),
    ),
    Route(
        "GET",
        "/jobs/{id}/explain",
        explain_job,
        "Why a job runs or does not, and what to do",
        "When it runs next, or why it does not; and what is to be said of its latest execution.",
        views.ExplanationView,
        examples.EXPLANATION | {"id": examples.JOB_ID, "kind": "job"},
    ),
    Route(
        "GET",
        "/executions",
        list_,
        "List executions, latest first",
        "By scheduled time.",
        views.ExecutionPage,
        examples.page(examples.EXECUTION),
        query=(
            *PAGE_WORDS,
            *STATE_WORDS,
            Word("task", "Of this task type.", "email.send"),
            Word("tag", "Whose job has this tag.", "billing"),
            Word("job_id", "Of this job.", examples.JOB_ID),
            Word("q", "A part of its job's name or task, in any case.", "mail"),
            *SPAN_WORDS,
        ),
    ),
    Route(
        "GET",
        "/executions/{id}",
        get,
        "Read an execution with its attempts",
        "Attempts are the oldest first.",
        views.ExecutionWithAttempts,
        examples.EXECUTION | {"attempts": [examples.ATTEMPT], "callbacks": []},
    ),
    Route(
        "GET",
        "/executions/{id}/explain",
        explain,
        "Why an execution is as it is, and what to do",
        "Late, held, skipped, not fired or given up. Also for a run that has no row yet.",
        views.ExplanationView,
        examples.EXPLANATION,
    ),
    Route(
        "GET",
        "/executions/{id}/logs",
        logs,
        "What an execution's handler logged",
        "Through `ctx.log`, oldest first; the last 64 KiB are kept.",
        views.LogPage,
        examples.page(examples.LOG_LINE),
        query=(*whole_words("1.17"), Word("attempt", "Of this attempt only.", 1, most=MOST_ATTEMPTS)),
    ),
    Route(
        "POST",
        "/executions/{id}:cancel",
        cancel,
        "Cancel an execution",
        "`cancelled`: it never runs. `already_running`: it is asked to stop, and may still succeed. "
        "`already_done`: too late. A run that has no row yet is cancelled ahead if its job is named.",
        views.OutcomeView,
        {"outcome": "cancelled"},
        body=bodies.CancelBody,
        body_example={"job_id": examples.JOB_ID},
    ),
)
