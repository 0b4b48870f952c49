"""Why is it late, held, skipped, not fired, given up? One question, one answer, and what to do. Pure.

    explain(facts)  →  Explanation("held", "rate_limit", "Its task may start …", "`shardctl task …`")

Every state, and every reason of a state, has its words here, in `unfired` or in `reasons`;
tests/unit/explaining has a line for each.
"""

from __future__ import annotations

from typing import Any

from shardwheel.execution import ExecutionState
from shardwheel.explanation import ExecutionFacts, Explanation, Facts, ago, shown_facts, span_text
from shardwheel.ids import text_of
from shardwheel.job import JobState
from shardwheel.output import shown_time
from shardwheel.reasons import (
    GIVEN_UP,
    GIVEN_UP_IN_DAGS,
    QUEUED_AGAIN,
    hold_words,
    mend_words,
    skip_words,
)
from shardwheel.unfired import ended_by, unreadable, why_no_row, why_not_begun, why_not_claimed

# Below this nobody calls it late.
LATE_MS = 1_000


def explain(facts: Facts) -> Explanation:
    """Of an execution, with or without a row; of a job, when no execution is meant."""
    if facts.execution_id is None:
        return _of_job(facts)
    if facts.execution is None:
        return why_no_row(facts)
    return _of_row(facts, facts.execution)


def shown_explanation(facts: Facts) -> dict[str, Any]:
    """The answer as the command line and the API give it. A job's comes with that of its latest execution."""
    found = explain(facts)
    shown = {
        "id": facts.execution_text or facts.job_text,
        "kind": "job" if facts.execution_id is None else "execution",
        **found._asdict(),
        "facts": dict(shown_facts(facts)),
    }
    if facts.latest is not None:
        shown["facts"]["latest_execution"] = shown_explanation(facts.latest)
    return shown


def _of_row(facts: Facts, row: ExecutionFacts) -> Explanation:
    match row.state:
        case ExecutionState.QUEUED:
            return _queued(facts, row)
        case ExecutionState.HELD:
            return _held(facts, row)
        case ExecutionState.RUNNING:
            return _running(facts, row)
        case ExecutionState.RETRY_WAIT:
            return _retry_wait(facts, row)
        case ExecutionState.SKIPPED:
            why, remedy = skip_words(facts, row.reason)
            skipped = f"It was skipped {ago(row.ended_ms, facts.now_ms)}: {why}"
            return Explanation(row.state, row.reason, skipped, remedy)
        case ExecutionState.DEAD:
            return _dead(facts, row)
        case _:
            return _over(facts, row)


# --- before it runs ---------------------------------------------------------------------------------------


def _queued(facts: Facts, row: ExecutionFacts) -> Explanation:
    found = why_not_claimed(facts, row.due_ms, row.state)
    again = QUEUED_AGAIN.get(row.reason)
    return found if again is None else found._replace(sentence=f"{again} {found.sentence}")


def _retry_wait(facts: Facts, row: ExecutionFacts) -> Explanation:
    failed = f"It failed {_times(row.failures)} of {facts.job.max_retries + 1} allowed{_last_error(facts)}."
    if row.due_ms > facts.now_ms:
        return Explanation(
            row.state,
            "backoff",
            f"{failed} The next attempt comes {ago(row.due_ms, facts.now_ms)}.",
            f"Nothing needs to be done; to give it up: `shardctl execution cancel {facts.execution_text}`; "
            "to run the "
            f"job now: `shardctl job trigger {facts.job_text}`.",
        )
    found = why_not_claimed(facts, row.due_ms, row.state)
    return found._replace(sentence=f"{failed} {found.sentence}")


def _held(facts: Facts, row: ExecutionFacts) -> Explanation:
    words, remedy = hold_words(facts, row.reason)
    return Explanation(
        row.state, row.reason, f"It may not run yet: {words} It goes on by itself once that is over.", remedy
    )


# --- while it runs ----------------------------------------------------------------------------------------


def _running(facts: Facts, row: ExecutionFacts) -> Explanation:
    began = ago(row.started_ms, facts.now_ms).removeprefix("at ")
    since = f"Attempt {row.attempt} runs on {row.worker or 'a worker'} since {began}"
    if row.reported:
        return Explanation(
            row.state,
            "reported",
            f"{since}; it has ended, its result stands in Kafka and is not settled yet.",
            "See that a result processor runs and keeps up: `shardctl alerts list`, `shardctl results`.",
        )
    if row.lease_until_ms is not None and row.lease_until_ms < facts.now_ms:
        lease_ended = ago(row.lease_until_ms, facts.now_ms)
        return Explanation(
            row.state,
            "lease_ended",
            f"{since}, but that worker has been silent: its lease ended {lease_ended}. The sweep of the "
            "partition's owner puts it back for another attempt, which is no failure.",
            "If that does not happen within seconds, see who owns its partition: `shardctl partition list`.",
        )
    if row.times_out_ms is not None and row.times_out_ms < facts.now_ms:
        return Explanation(
            row.state,
            "past_time_out",
            f"{since} and is past its time-out of {span_text(facts.job.timeout_ms)}: its worker is ending "
            "it, and if that hangs, the sweep does.",
            f"If it needs more time: `shardctl job update {facts.job_text} --set timeout_s=…`.",
        )
    if row.cancel_requested_ms is not None:
        return Explanation(
            row.state,
            "asked_to_stop",
            f"{since}; it was asked to stop {ago(row.cancel_requested_ms, facts.now_ms)}, and its worker "
            "learns of that at "
            "its next heartbeat.",
            f"Ask again once it has had its time: `shardctl explain {facts.execution_text}`.",
        )
    return Explanation(
        row.state,
        "at_work",
        f"{since}; it may until {_moment(row.times_out_ms)}{_lateness(facts, row)}.",
        f"Nothing needs to be done; to stop it: `shardctl execution cancel {facts.execution_text}`.",
    )


# --- when it is over --------------------------------------------------------------------------------------


def _dead(facts: Facts, row: ExecutionFacts) -> Explanation:
    why = (GIVEN_UP | GIVEN_UP_IN_DAGS).get(row.reason, row.reason or "no reason is on record")
    sentence = f"It was given up {ago(row.ended_ms, facts.now_ms)}: {why}{_last_error(facts)}."
    letter, mended_by = facts.letter, mend_words(facts, row.reason or "")
    if mended_by is not None:
        remedy = mended_by
    elif letter is not None and letter.state == "redriven":
        other = "" if letter.redriven_as is None else text_of(letter.redriven_as)
        remedy = f"It was redriven: `shardctl explain {other}`."
    elif letter is not None and letter.state == "discarded":
        remedy = f"Its letter was discarded; to run the job now: `shardctl job trigger {facts.job_text}`."
    else:
        named = facts.execution_text if letter is None else text_of(letter.dead_letter_id)
        remedy = f"See it: `shardctl dlq show {named}`; mend the cause, and `shardctl dlq redrive {named}`."
    return Explanation(row.state, row.reason, sentence, remedy)


def _over(facts: Facts, row: ExecutionFacts) -> Explanation:
    trigger = f"`shardctl job trigger {facts.job_text}`"
    ended = ago(row.ended_ms, facts.now_ms)
    if row.state == ExecutionState.CANCELLED:
        remedy = f"To run the job now: {trigger}."
        return Explanation(row.state, row.reason or "cancelled", f"It was cancelled {ended}.", remedy)
    if row.state == ExecutionState.FORCE_COMPLETED:
        remedy = f"To run the job all the same: {trigger}."
        return Explanation(row.state, row.reason or "by_hand", f"Somebody declared it done {ended}.", remedy)
    lateness = _lateness(facts, row)
    took = "" if row.duration_ms is None else f", in {span_text(row.duration_ms)}"
    return Explanation(
        row.state,
        "late" if lateness else "on_time",
        f"It succeeded {ended}{took}{lateness}.",
        _against_lateness(facts) if lateness else f"Nothing needs to be done; to run it again: {trigger}.",
    )


def _lateness(facts: Facts, row: ExecutionFacts) -> str:
    """Where the time went between the scheduled time and the last start; empty when it was none."""
    if facts.scheduled_ms is None or row.started_ms is None or row.started_ms - facts.scheduled_ms < LATE_MS:
        return ""
    starts_ms = [one.started_ms for one in facts.attempts if one.started_ms is not None]
    began_ms = min([row.started_ms, *starts_ms])
    parts = []
    if began_ms - facts.scheduled_ms >= LATE_MS:
        parts.append(f"{span_text(began_ms - facts.scheduled_ms)} until the first attempt began")
    if row.started_ms - began_ms >= LATE_MS:
        parts.append(f"{span_text(row.started_ms - began_ms)} in earlier attempts and the waits after them")
    whole = span_text(row.started_ms - facts.scheduled_ms)
    said = ", ".join(parts)
    return f"; it started {whole} after its scheduled time {shown_time(facts.scheduled_ms)}: {said}"


def _against_lateness(facts: Facts) -> str:
    if len(facts.attempts) > 1:
        return f"See why its first attempts failed: `shardctl execution get {facts.execution_text}`."
    return (
        f"If that happens often, start more workers: `shardctl worker --pool {facts.job.pool} --handlers "
        "MODULE`; was anything "
        "wrong then? `shardctl alerts list --all`."
    )


def _last_error(facts: Facts) -> str:
    failed = [one for one in facts.attempts if one.outcome not in ("succeeded", "released", "cancelled")]
    if not failed:
        return ""
    last = failed[-1]
    said = ": ".join(part for part in (last.error_class, last.message.partition("\n")[0][:200]) if part)
    return f"; attempt {last.attempt} ended as {last.outcome}" + (f" ({said})" if said else "")


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


def _moment(at_ms: int | None) -> str:
    return "any time" if at_ms is None else shown_time(at_ms)


# --- a job ------------------------------------------------------------------------------------------------


def _of_job(facts: Facts) -> Explanation:
    job = facts.job
    changed = ago(job.changed_ms, facts.now_ms)
    match job.state:
        case JobState.DELETED:
            remedy = "Create it anew: `shardctl job create`."
            return Explanation(job.state, "deleted", f"It was deleted {changed}.", remedy)
        case JobState.PAUSED:
            return Explanation(
                job.state,
                "paused",
                f"It was paused {changed}: its times pass without a run until it is resumed.",
                f"`shardctl job resume {facts.job_text}`; once, now: `shardctl job trigger "
                f"{facts.job_text}`.",
            )
        case JobState.COMPLETED:
            return Explanation(
                job.state,
                "completed",
                f"It is completed: its last time was {_moment(job.last_ms)}, and nothing of it is left to "
                "run.",
                f"To run it once more: `shardctl job trigger {facts.job_text}`.",
            )
    if job.kind == "unreadable":
        return unreadable(facts)
    if facts.scheduled_ms is not None and facts.fire_ms is not None:
        late = why_no_row(facts)
        missing = f"Its time {shown_time(facts.scheduled_ms)} has no execution."
        return late._replace(sentence=f"{missing} {late.sentence}")
    return _next_of(facts)


def _next_of(facts: Facts) -> Explanation:
    job = facts.job
    trigger = f"To run it now: `shardctl job trigger {facts.job_text}`."
    if job.next_ms is not None and job.next_fire_ms is not None:
        jitter_ms = job.next_fire_ms - job.next_ms
        jitter = f", plus {span_text(jitter_ms)} of jitter" if jitter_ms else ""
        passed = f" It passes over {', '.join(job.excluded)}." if job.excluded else ""
        next_time = ago(job.next_ms, facts.now_ms).removeprefix("at ")
        return Explanation(job.state, "waits", f"Its next time is {next_time}{jitter}.{passed}", trigger)
    if facts.parents:
        return why_not_begun(facts)
    if job.kind == "none":
        sentence = "It has no schedule: it runs when it is triggered."
        return Explanation(job.state, "no_schedule", sentence, trigger)
    if job.kind == "once":
        return Explanation(
            job.state,
            "over",
            f"It was to run once, {ago(job.last_ms, facts.now_ms)}, and has no other time; it is completed "
            "once that run is over.",
            trigger,
        )
    return Explanation(
        job.state,
        "schedule_ended",
        f"It has no time left: by its {ended_by(job)} the last one was {ago(job.last_ms, facts.now_ms)}; it "
        "is completed once all is over.",
        f"Let it go on: `shardctl job update {facts.job_text} --set {ended_by(job)}=…`. {trigger}",
    )
