"""Words for the reasons that rows name: why one is held, skipped, queued again, given up. Pure."""

from __future__ import annotations

from shardwheel.explanation import Facts, ago, span_text
from shardwheel.ids import text_of
from shardwheel.output import shown_time

QUEUED_AGAIN = {
    "moved": "Its job got another pool or priority while it was on its way, so it goes out again.",
    "released": "A worker that was stopped gave it back.",
    "worker_crashed": "The worker that ran it died, so it runs again; that is no failure.",
}

GIVEN_UP = {
    "retries_exhausted": "it failed as often as max_retries allows",
    "fatal": "its handler said that it can't succeed (Fatal)",
    "poison": "it is poison: it failed three times within a minute, or two workers died with it",
    "timed_out": "it took longer than its time-out, twice",
    "retry_budget": "its tenant's retries were used up (twice its first attempts over five minutes), so it "
    "was given up early",
}

# Of what has no handler of its own: fan-outs, and runs of DAGs.
GIVEN_UP_IN_DAGS = {
    "item_failed": "an item of this fan-out failed",
    "fan_out_not_a_list": "its parent's output is no list to fan out for",
    "fan_out_too_long": "its parent's list has more than 10,000 items",
    "fan_out_too_large": "its items, each with the params of the task, take more than 32 MiB together",
    "run_failed": "its run failed",
}


def mend_words(facts: Facts, reason: str) -> str | None:
    """What can be done about a fan-out, or a DAG's run, that was given up; None: it is neither."""
    if reason == "item_failed":
        items = f"`shardctl execution list --job {facts.job_text} --state dead`"
        return (
            f"See its items: {items}; mend the cause, and `shardctl dag rerun RUN`, or redrive their letters."
        )
    if reason == "run_failed":
        run = facts.execution_text
        return (
            f"See its tasks: `shardctl dag run show {run}`; mend the cause, and `shardctl dag rerun {run}`."
        )
    if reason.startswith("fan_out_"):
        return (
            "The same parent's output would be no better: `shardctl dag force-complete RUN TASK --result "
            "'[…]'` says what the items would have come to, `shardctl dag skip RUN TASK` leaves them out; "
            "let the parent return a list that fits, with larger data by reference, and trigger the DAG anew."
        )
    return None


def hold_words(facts: Facts, reason: str) -> tuple[str, str]:
    """Why it may not run yet, and what can be done about it."""
    job, task = facts.job, facts.task
    match reason:
        case "paused":
            changed = ago(job.changed_ms, facts.now_ms)
            return (
                f"it was under way when its job was paused ({changed}), and waits for the resume.",
                f"`shardctl job resume {facts.job_text}`.",
            )
        case "task_paused":
            by = f" by {task.paused_by}" if task.paused_by else ""
            return (
                f"its task {job.task} was paused{by} {ago(task.paused_ms, facts.now_ms)}.",
                f"`shardctl task resume {job.task}`.",
            )
        case "concurrency":
            running = "all its places are" if task.running is None else f"{task.running} are"
            return (
                f"of its task {job.task} at most {task.max_running} run at once, and {running} taken.",
                f"Wait for one to end, or allow more: `shardctl task limit {job.task} --max-running …`.",
            )
        case "rate_limit":
            return (
                f"its task {job.task} may start {_rate(task.rate_per_s)} over all workers: that is used up.",
                f"Wait for its turn, or allow more: `shardctl task limit {job.task} --rate …/min`.",
            )
        case "breaker_open":
            return (
                f"too many runs of its task {job.task} failed, so its breaker is open{_until(facts)}; then "
                "one run "
                "is tried, and if that succeeds the others follow.",
                f"See why they fail: `shardctl dlq list`, and mend it; to do without the breaker: "
                f"`shardctl task limit {job.task} --no-breaker`.",
            )
        case "handler_unknown":
            return (
                f"no worker of pool {job.pool} had a handler for {job.task} when it was "
                f"claimed{_now_able(facts)}.",
                f"Start a worker that has it: `shardctl worker --pool {job.pool} --handlers MODULE`.",
            )
        case "overlap":
            other = "" if facts.slot_holder is None else text_of(facts.slot_holder)
            holder = f"execution {other}" if other else "another run"
            look = f"See what that one does: `shardctl explain {other}`. " if other else ""
            return (
                f"{holder} of the same job is not over, and overlap is {job.overlap}.",
                f"{look}To let runs overlap: `shardctl job update {facts.job_text} --set "
                "'overlap=\"allow\"'`.",
            )
    return f"{reason or 'no reason is on record'}.", "See what its task type says: `shardctl task list`."


def _rate(per_s: float | None) -> str:
    if per_s is None:
        return "only so many at a time"
    for unit_s, unit in ((1, "a second"), (60, "a minute"), (3600, "an hour")):
        if per_s * unit_s >= 1:
            return f"{per_s * unit_s:g} {unit}"
    return f"{per_s * 86_400:g} a day"


def _until(facts: Facts) -> str:
    until_ms = facts.task.breaker_open_until_ms
    return "" if until_ms is None else f" until {shown_time(until_ms)}"


def _now_able(facts: Facts) -> str:
    if facts.task.able_workers is None:
        return ""
    return " (there is none now either)" if not facts.task.able_workers else " (there is one now)"


def skip_words(facts: Facts, reason: str) -> tuple[str, str]:
    """Why a time was skipped, and what can be done about it."""
    job = facts.job
    again = f"run the job now: `shardctl job trigger {facts.job_text}`"
    fill = f"To run it after all: `shardctl job backfill {facts.job_text} --from … --to …`"
    not_after = span_text(job.not_after_ms or 0)
    words = {
        "paused": (
            "the job was paused when its time came.",
            f"`shardctl job resume {facts.job_text}`. {fill}.",
        ),
        "deleted": ("the job was deleted.", "Create it anew: `shardctl job create`."),
        "expired": (
            f"no worker could begin it within not_after_s ({not_after}) of its fire time.",
            f"Allow more with `shardctl job update {facts.job_text} --set not_after_s=…`, or start more "
            f"workers: `shardctl worker --pool {job.pool} --handlers MODULE`; {again}.",
        ),
        "overlap": (
            "an earlier run of the same job was not over, and overlap is skip.",
            f"Let runs queue or overlap: `shardctl job update {facts.job_text} --set 'overlap=\"queue\"'`; "
            f"{again}.",
        ),
        "upstream_failed": (
            "a parent of it failed in this run: it died, was cancelled, or could not run itself.",
            "See the run's tasks: `shardctl dag run show RUN`; mend the cause, and `shardctl dag rerun RUN`.",
        ),
        "upstream_skipped": (
            "a parent of it was skipped in this run.",
            "See the run's tasks: `shardctl dag run show RUN`; to let it run, say that the parent is done, "
            "or not needed: `shardctl dag force-complete RUN PARENT`, `shardctl dag skip RUN PARENT`.",
        ),
        "item_skipped": (
            "an item of it was skipped in this run (expired, or its job was deleted), and none failed.",
            f"See its items: `shardctl execution list --job {facts.job_text}`; to let its children run all "
            "the same: `shardctl dag force-complete RUN TASK`, `shardctl dag skip RUN TASK`.",
        ),
        "run_failed": (
            "another task of its run failed, and its DAG's policy is fail_fast.",
            "See the run's tasks: `shardctl dag run show RUN`; mend the cause, and `shardctl dag rerun RUN`.",
        ),
        "misfire": (
            f"it was more than misfire_grace_s ({span_text(job.misfire_grace_ms)}) late when somebody could "
            f"fire it, and misfire is {job.misfire}.",
            f"{fill}; to have missed times run in future: `shardctl job update {facts.job_text} --set "
            "'misfire=\"fire_all\"'`.",
        ),
        "catchup_window": (
            f"it was further past than catchup_window ({span_text(job.catchup_window_ms)}) when somebody "
            "could fire it.",
            f"{fill}; to look further back in future: `shardctl job update {facts.job_text} --set "
            "'catchup_window=\"1d\"'`.",
        ),
    }
    return words.get(reason, (f"{reason or 'no reason is on record'}.", f"{fill}."))
