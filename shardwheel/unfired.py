"""Why something that ought to run has not met the claim: step by step along its way. Pure: facts in, words
out.

    its time has come → its job lets it → somebody owns its partition → the owner has fired so far → a worker
    took it
"""

from __future__ import annotations

from shardwheel.execution import TERMINAL_STATES
from shardwheel.explanation import Explanation, Facts, JobFacts, ago, span_text
from shardwheel.ids import text_of
from shardwheel.job import JobState
from shardwheel.output import shown_time
from shardwheel.reasons import skip_words

# A watermark is stored once a second: so far behind it always is.
STORED_EVERY_MS = 3_000


def why_no_row(facts: Facts) -> Explanation:
    """An execution that has no row: not fired, fired and not claimed, or never to be."""
    assert facts.scheduled_ms is not None and facts.fire_ms is not None
    return _by_its_span(facts) or _by_its_job(facts) or why_not_claimed(facts, facts.fire_ms, "not_fired")


def ended_by(job: JobFacts) -> str:
    """Which of the job's fields says when its schedule ends."""
    return "end_at" if job.last_ms == job.end_ms else "max_runs"


def unreadable(facts: Facts) -> Explanation:
    """The schedule can't be read: the shards say so of themselves in `/healthz` too."""
    return Explanation(
        facts.job.state,
        "unreadable",
        "The schedule can't be read here, so the job does not fire: it names a time zone that is not known.",
        f"Update tzdata where the shards run, or pause the job: `shardctl job pause {facts.job_text}`.",
    )


def why_not_begun(facts: Facts) -> Explanation:
    """A task, or a job with parents: which of them it waits for."""
    root_kind, root_id, run_id, run_state, *_ = facts.parents[0]
    root = text_of(root_id)
    trigger = f"To run all of them now: `shardctl {'dag' if root_kind == 'dag' else 'job'} trigger {root}`."
    waits_for = [one for one in facts.parents if one.state not in TERMINAL_STATES]
    if run_id is None:
        parents = ", ".join(text_of(one.parent_id) for one in facts.parents)
        sentence = (
            f"It has no schedule: it runs after {parents}, in each run of {root}, which has not run yet."
        )
        return Explanation(facts.job.state, "waits_for_root", sentence, trigger)
    if run_state == "running" and waits_for:
        open_ = ", ".join(f"{text_of(one.parent_id)} ({one.state})" for one in waits_for)
        return Explanation(
            facts.job.state,
            "waits_for_parents",
            f"In run {text_of(run_id)} of {root} it waits for its parents: {open_}.",
            f"See why: `shardctl explain {text_of(waits_for[0].parent_id)}`.",
        )
    sentence = (
        f"It runs in each run of {root} once its parents are over; run {text_of(run_id)} is {run_state}."
    )
    return Explanation(facts.job.state, "waits_for_root", sentence, trigger)


def why_not_claimed(facts: Facts, due_ms: int, state: str) -> Explanation:
    """It is to be published at its due time, and claimed then: how far has it come?"""
    behind_ms = facts.now_ms - facts.partition.fired_through_ms
    if due_ms > facts.now_ms:
        return Explanation(
            state,
            "not_due",
            f"It is not due yet: it fires {ago(due_ms, facts.now_ms)}{_with_jitter(facts, due_ms)}.",
            f"To run the job now: `shardctl job trigger {facts.job_text}`.",
        )
    if facts.partition.owner_known and facts.partition.owner is None:
        return Explanation(
            state,
            "no_owner",
            f"It was due {ago(due_ms, facts.now_ms)}, and nobody owns its partition {facts.job.partition}: "
            "no shard fires it. It will be fired, late, once a shard has taken it.",
            "See which shards are alive: `shardctl shard list`; start one: `shardctl shard`.",
        )
    if facts.partition.fired_through_ms < due_ms and behind_ms > STORED_EVERY_MS:
        owner = facts.partition.owner or "its owner"
        return Explanation(
            state,
            "owner_behind",
            f"It was due {ago(due_ms, facts.now_ms)}; partition {facts.job.partition} {_fired(facts)}: "
            f"{owner} loads it, catches up, or can't publish to Kafka.",
            f"See where it stands: `shardctl partition list`, `shardctl doctor`; /healthz of {owner} says "
            "what it waits for.",
        )
    if facts.partition.fired_through_ms < due_ms:
        return Explanation(
            state,
            "firing",
            f"It was due {ago(due_ms, facts.now_ms)} and is being fired just now.",
            f"Ask again in a second: `shardctl explain {facts.execution_text or facts.job_text}`.",
        )
    return _not_taken(facts, due_ms, state)


def _fired(facts: Facts) -> str:
    through_ms = facts.partition.fired_through_ms
    if not through_ms:
        return "was never fired yet"
    return f"is fired only through {shown_time(through_ms)}, {span_text(facts.now_ms - through_ms)} ago"


def _not_taken(facts: Facts, due_ms: int, state: str) -> Explanation:
    pool = facts.job.pool
    due = ago(due_ms, facts.now_ms)
    begun = f"It was due {due} and is published, but no worker of pool {pool} has claimed it"
    if facts.task.pool_workers == 0:
        return Explanation(
            state,
            "no_worker",
            f"{begun}: there is none.",
            f"Start one that has its handler: `shardctl worker --pool {pool} --handlers MODULE`.",
        )
    lag = "" if facts.pool_lag is None else f": {facts.pool_lag:,} others wait there"
    return Explanation(
        state,
        "unclaimed",
        f"{begun} yet{lag}.",
        f"If that lasts, start more workers: `shardctl worker --pool {pool} --handlers MODULE`.",
    )


def _by_its_job(facts: Facts) -> Explanation | None:
    """What its job says against it."""
    job, at_ms = facts.job, facts.scheduled_ms or 0
    changed = ago(job.changed_ms, facts.now_ms)
    if job.state == JobState.DELETED:
        remedy = "Create it anew: `shardctl job create`."
        return Explanation(
            "not_fired", "job_deleted", f"Its job was deleted {changed}: nothing of it runs.", remedy
        )
    if job.state == JobState.PAUSED:
        return Explanation(
            "not_fired",
            "job_paused",
            f"Its job was paused {changed}: its times pass without a run until it is resumed.",
            f"`shardctl job resume {facts.job_text}`; once, now: `shardctl job trigger {facts.job_text}`.",
        )
    if job.kind == "unreadable":
        return unreadable(facts)._replace(state="not_fired")
    if job.last_ms is not None and at_ms > job.last_ms:
        return Explanation(
            "not_fired",
            "schedule_ended",
            f"Its job's schedule ends before: {ago(job.last_ms, facts.now_ms)}, by its {ended_by(job)}.",
            f"Let it go on: `shardctl job update {facts.job_text} --set {ended_by(job)}=…`; "
            f"once, now: `shardctl job trigger {facts.job_text}`.",
        )
    if at_ms < job.effective_from_ms:
        return Explanation(
            "not_fired",
            "schedule_changed",
            "It belongs to an earlier schedule: the present one holds from "
            f"{shown_time(job.effective_from_ms)} on, "
            "and at the change this time was no time of the old one that was still to run.",
            f"See the job's times: `shardctl job next {facts.job_text}`; to fill a past span: "
            f"`shardctl job backfill {facts.job_text} --from … --to …`.",
        )
    if not job.is_time:
        return Explanation(
            "not_fired",
            "no_such_time",
            f"{shown_time(at_ms)} is no time of its job's schedule: it is excluded, or was never one.",
            f"See the job's times: `shardctl job next {facts.job_text}`.",
        )
    return None


def _by_its_span(facts: Facts) -> Explanation | None:
    """What is on record of many times together. A range also spans what is no time of the schedule."""
    span, job = facts.span, facts.job
    is_old = (facts.scheduled_ms or 0) < job.effective_from_ms
    if span is None or not (job.is_time or is_old):
        return None
    many = "several" if span.times is None else f"{span.times:,}"
    around = f"{many} times from {shown_time(span.first_ms)} to {shown_time(span.last_ms)}"
    if span.is_skip:
        why, remedy = skip_words(facts, span.reason)
        return Explanation(
            "skipped", span.reason, f"It is one of {around} that were skipped together: {why}", remedy
        )
    return Explanation(
        "not_fired",
        "to_be_expanded",
        f"It is one of {around} that are caught up (origin {span.reason}), at a limited rate, so that they "
        "delay nothing that is due now.",
        f"Its turn comes; see how far it is: `shardctl explain {facts.job_text}`.",
    )


def _with_jitter(facts: Facts, due_ms: int) -> str:
    if facts.execution is not None or facts.scheduled_ms is None or facts.scheduled_ms >= due_ms:
        return ""
    jitter = span_text(due_ms - facts.scheduled_ms)
    return f" (its scheduled time {shown_time(facts.scheduled_ms)} plus {jitter} of jitter)"
