"""Every state and every reason has its sentence and its remedy: a line each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shardwheel.commands.explain import for_people
from shardwheel.explaining import explain, shown_explanation
from shardwheel.explanation import (
    AttemptFacts,
    ExecutionFacts,
    Facts,
    JobFacts,
    LetterFacts,
    ParentFacts,
    PartitionFacts,
    SpanFacts,
    TaskFacts,
    span_text,
)
from shardwheel.ids import fire_id, text_of
from shardwheel.reasons import GIVEN_UP, QUEUED_AGAIN

NOW_MS = 1_795_003_200_000  # 2026-11-18T12:00:00Z
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
JOB_ID = bytes(15) + b"\x01"
JOB = text_of(JOB_ID)
OTHER_ID = bytes(15) + b"\x02"
SCHEDULED_MS = NOW_MS - MINUTE_MS
EXECUTION_ID = fire_id(JOB_ID, 7, SCHEDULED_MS)
EXECUTION = text_of(EXECUTION_ID)

WELL = PartitionFacts(NOW_MS - 500, NOW_MS - 5_000, "shard-a", True)
BEHIND = WELL._replace(fired_through_ms=NOW_MS - 2 * MINUTE_MS)


def job(**fields: Any) -> JobFacts:
    plain = JobFacts(
        JOB_ID,
        7,
        "email.send",
        "active",
        "every",
        "short",
        "allow",
        None,
        3,
        60_000,
        None,
        "fire_last",
        60_000,
        HOUR_MS,
        None,
        None,
        NOW_MS - HOUR_MS,
        NOW_MS - HOUR_MS,
    )
    return plain._replace(**fields)


def row(state: str, reason: str = "", **fields: Any) -> ExecutionFacts:
    plain = ExecutionFacts(
        state,
        reason,
        "schedule",
        SCHEDULED_MS,
        1,
        0,
        0,
        "worker-1",
        None,
        None,
        False,
        None,
        SCHEDULED_MS,
        None,
        None,
        None,
    )
    return plain._replace(**fields)


def facts(execution: ExecutionFacts | None = None, **fields: Any) -> Facts:
    """Of an execution, unless `execution_id=None` says that the job is meant."""
    given: dict[str, Any] = {"job": job(), "partition": WELL, "execution_id": EXECUTION_ID}
    given |= {"scheduled_ms": SCHEDULED_MS, "fire_ms": SCHEDULED_MS} | fields
    return Facts(now_ms=NOW_MS, execution=execution, **given)


FAILED = AttemptFacts(
    1, "failed", "ValueError", "no such address\ntrace", "worker-1", SCHEDULED_MS, SCHEDULED_MS
)
RUNS = row(
    "running", attempt=2, started_ms=SCHEDULED_MS + 100, times_out_ms=NOW_MS + 1, lease_until_ms=NOW_MS + 1
)
LETTER = LetterFacts(OTHER_ID, "open", "fatal", None)
SKIPS = SpanFacts(SCHEDULED_MS - HOUR_MS, NOW_MS, 61, "misfire", True)

# What is asked of, the state and reason of the answer, words of its sentence, words of its remedy.
CASES: list[tuple[Facts, str, str, str]] = [
    # --- it has no row
    (facts(fire_ms=NOW_MS + 1_500), "not_fired:not_due", "in 1.5 s", f"job trigger {JOB}"),
    (facts(fire_ms=NOW_MS + 1_500), "not_fired:not_due", "plus 61.5 s of jitter", f"job trigger {JOB}"),
    (
        facts(partition=WELL._replace(owner=None)),
        "not_fired:no_owner",
        "nobody owns its partition 7",
        "`shardctl shard`",
    ),
    (
        facts(partition=BEHIND),
        "not_fired:owner_behind",
        "fired only through 2026-11-18T11:58",
        "partition list",
    ),
    (
        facts(partition=PartitionFacts(0, 0)),
        "not_fired:owner_behind",
        "was never fired yet",
        "partition list",
    ),
    (facts(fire_ms=NOW_MS - 100), "not_fired:firing", "being fired just now", f"explain {EXECUTION}"),
    (facts(task=TaskFacts(pool_workers=0)), "not_fired:no_worker", "there is none", "worker --pool short"),
    (facts(pool_lag=1_234), "not_fired:unclaimed", "1,234 others wait", "worker --pool short"),
    (
        facts(job=job(state="paused")),
        "not_fired:job_paused",
        "was paused at 2026-11-18T11:00",
        f"job resume {JOB}",
    ),
    (facts(job=job(state="deleted")), "not_fired:job_deleted", "was deleted", "job create"),
    (
        facts(job=job(last_ms=SCHEDULED_MS - 1, end_ms=SCHEDULED_MS - 1)),
        "not_fired:schedule_ended",
        "by its end_at",
        f"job update {JOB}",
    ),
    (
        facts(job=job(last_ms=SCHEDULED_MS - 1, max_runs=4)),
        "not_fired:schedule_ended",
        "by its max_runs",
        f"job update {JOB}",
    ),
    (
        facts(job=job(effective_from_ms=NOW_MS)),
        "not_fired:schedule_changed",
        "an earlier schedule",
        f"job next {JOB}",
    ),
    (facts(job=job(is_time=False)), "not_fired:no_such_time", "it is excluded", f"job next {JOB}"),
    (facts(job=job(kind="unreadable")), "not_fired:unreadable", "can't be read", f"job pause {JOB}"),
    (facts(span=SKIPS), "skipped:misfire", "one of 61 times", f"job backfill {JOB}"),
    (
        facts(span=SKIPS._replace(is_skip=False, reason="settled", times=None)),
        "not_fired:to_be_expanded",
        "one of several times",
        f"explain {JOB}",
    ),
    # --- it waits
    (facts(row("queued", due_ms=NOW_MS + 5_000)), "queued:not_due", "in 5 s", f"job trigger {JOB}"),
    (facts(row("queued"), partition=BEHIND), "queued:owner_behind", "shard-a loads it", "shardctl doctor"),
    (
        facts(row("queued")),
        "queued:unclaimed",
        "no worker of pool short has claimed it",
        "worker --pool short",
    ),
    (facts(row("queued", "moved")), "queued:unclaimed", "another pool or priority", "worker --pool short"),
    (facts(row("queued", "released")), "queued:unclaimed", "gave it back", "worker --pool short"),
    (facts(row("queued", "worker_crashed")), "queued:unclaimed", "that is no failure", "worker --pool short"),
    (
        facts(row("retry_wait", failures=2, due_ms=NOW_MS + 30_000), attempts=[FAILED]),
        "retry_wait:backoff",
        "failed 2 times of 4 allowed; attempt 1 ended as failed (ValueError: no such address). The next "
        "attempt comes at 2026-11-18T12:00:30.000Z, in 30 s",
        f"execution cancel {EXECUTION}",
    ),
    (
        facts(row("retry_wait", failures=1)),
        "retry_wait:unclaimed",
        "failed 1 time of 4",
        "worker --pool short",
    ),
    # --- it is held
    (
        facts(row("held", "paused"), job=job(state="paused")),
        "held:paused",
        "under way when its job was paused",
        f"job resume {JOB}",
    ),
    (
        facts(row("held", "task_paused"), task=TaskFacts(True, NOW_MS - HOUR_MS, "ada")),
        "held:task_paused",
        "its task email.send was paused by ada at 2026-11-18T11:00:00.000Z, 60 min ago",
        "task resume email.send",
    ),
    (
        facts(row("held", "concurrency"), task=TaskFacts(max_running=4, running=4)),
        "held:concurrency",
        "at most 4 run at once, and 4 are taken",
        "task limit email.send --max-running",
    ),
    (
        facts(row("held", "rate_limit"), task=TaskFacts(rate_per_s=0.5)),
        "held:rate_limit",
        "may start 30 a minute",
        "task limit email.send --rate",
    ),
    (
        facts(row("held", "breaker_open"), task=TaskFacts(breaker_open_until_ms=NOW_MS + 30_000)),
        "held:breaker_open",
        "its breaker is open until 2026-11-18T12:00:30.000Z",
        "task limit email.send --no-breaker",
    ),
    (
        facts(row("held", "handler_unknown"), task=TaskFacts(able_workers=0)),
        "held:handler_unknown",
        "had a handler for email.send when it was claimed (there is none now either)",
        "worker --pool short",
    ),
    (
        facts(row("held", "overlap"), job=job(overlap="queue"), slot_holder=OTHER_ID),
        "held:overlap",
        f"execution {text_of(OTHER_ID)} of the same job is not over, and overlap is queue",
        f"explain {text_of(OTHER_ID)}",
    ),
    # --- it runs
    (
        facts(RUNS),
        "running:at_work",
        "Attempt 2 runs on worker-1 since 2026-11-18T11:59",
        f"cancel {EXECUTION}",
    ),
    (facts(RUNS._replace(reported=True)), "running:reported", "its result stands in Kafka", "alerts list"),
    (
        facts(RUNS._replace(lease_until_ms=NOW_MS - 1)),
        "running:lease_ended",
        "which is no failure",
        "partition list",
    ),
    (
        facts(RUNS._replace(times_out_ms=NOW_MS - 1)),
        "running:past_time_out",
        "past its time-out of 60 s",
        f"job update {JOB} --set timeout_s",
    ),
    (
        facts(RUNS._replace(cancel_requested_ms=NOW_MS - 2_000)),
        "running:asked_to_stop",
        "asked to stop at 2026-11-18T11:59:58.000Z",
        f"explain {EXECUTION}",
    ),
    # --- it was skipped
    (facts(row("skipped", "paused")), "skipped:paused", "the job was paused", f"job resume {JOB}"),
    (facts(row("skipped", "deleted")), "skipped:deleted", "the job was deleted", "job create"),
    (
        facts(row("skipped", "expired"), job=job(not_after_ms=30_000)),
        "skipped:expired",
        "within not_after_s (30 s)",
        f"job update {JOB} --set not_after_s",
    ),
    (facts(row("skipped", "overlap")), "skipped:overlap", "overlap is skip", "overlap="),
    (facts(row("skipped", "upstream_failed")), "skipped:upstream_failed", "parent of it failed", "dag rerun"),
    (facts(row("skipped", "upstream_skipped")), "skipped:upstream_skipped", "was skipped", "dag skip"),
    (facts(row("skipped", "item_skipped")), "skipped:item_skipped", "an item of it was skipped", "dag skip"),
    (facts(row("skipped", "run_failed")), "skipped:run_failed", "fail_fast", "dag rerun"),
    (facts(row("skipped", "misfire")), "skipped:misfire", "misfire_grace_s (60 s)", f"job backfill {JOB}"),
    (
        facts(row("skipped", "catchup_window")),
        "skipped:catchup_window",
        "catchup_window (60 min)",
        f"job backfill {JOB}",
    ),
    (facts(row("skipped", "skipped_by_hand")), "skipped:skipped_by_hand", "skipped_by_hand", "job backfill"),
    # --- it was given up
    (
        facts(row("dead", "item_failed")),
        "dead:item_failed",
        "an item of this fan-out failed",
        f"--job {JOB} --state dead",
    ),
    (facts(row("dead", "run_failed")), "dead:run_failed", "its run failed", f"dag rerun {EXECUTION}"),
    (
        facts(row("dead", "fan_out_not_a_list")),
        "dead:fan_out_not_a_list",
        "no list to fan out for",
        "dag force-complete",
    ),
    (
        facts(row("dead", "fan_out_too_long")),
        "dead:fan_out_too_long",
        "more than 10,000 items",
        "by reference",
    ),
    (facts(row("dead", "fan_out_too_large")), "dead:fan_out_too_large", "more than 32 MiB", "by reference"),
    *[
        (
            facts(row("dead", reason, ended_ms=NOW_MS - 1_000), letter=LETTER, attempts=[FAILED]),
            f"dead:{reason}",
            f"{words}; attempt 1 ended as failed (ValueError: no such address)",
            f"dlq redrive {text_of(OTHER_ID)}",
        )
        for reason, words in GIVEN_UP.items()
    ],
    (
        facts(row("dead", "fatal"), letter=LETTER._replace(state="redriven", redriven_as=OTHER_ID)),
        "dead:fatal",
        "given up",
        f"explain {text_of(OTHER_ID)}",
    ),
    (
        facts(row("dead", "fatal"), letter=LETTER._replace(state="discarded")),
        "dead:fatal",
        "given up",
        f"job trigger {JOB}",
    ),
    # --- it is over
    (
        facts(row("cancelled", ended_ms=NOW_MS)),
        "cancelled:cancelled",
        "It was cancelled",
        f"job trigger {JOB}",
    ),
    (facts(row("force_completed")), "force_completed:by_hand", "declared it done", f"job trigger {JOB}"),
    (
        facts(row("succeeded", started_ms=SCHEDULED_MS + 20, ended_ms=NOW_MS, duration_ms=350)),
        "succeeded:on_time",
        "in 350 ms.",
        f"job trigger {JOB}",
    ),
    (
        facts(row("succeeded", started_ms=SCHEDULED_MS + 12_000, ended_ms=NOW_MS)),
        "succeeded:late",
        "started 12 s after its scheduled time 2026-11-18T11:59:00.000Z: 12 s until the first attempt began",
        "worker --pool short",
    ),
    (
        facts(
            row("succeeded", attempt=2, started_ms=SCHEDULED_MS + 42_000, ended_ms=NOW_MS),
            attempts=[
                FAILED,
                FAILED._replace(attempt=2, outcome="succeeded", started_ms=SCHEDULED_MS + 42_000),
            ],
        ),
        "succeeded:late",
        "42 s in earlier attempts and the waits after them",
        f"execution get {EXECUTION}",
    ),
]

ABOUT_JOBS: list[tuple[JobFacts, str, str, str]] = [
    (
        job(next_ms=NOW_MS + HOUR_MS, next_fire_ms=NOW_MS + HOUR_MS),
        "active:waits",
        "13:00:00.000Z, in 60 min.",
        "trigger",
    ),
    (
        job(next_ms=NOW_MS + HOUR_MS, next_fire_ms=NOW_MS + HOUR_MS + 5_000, excluded=["2026-11-18"]),
        "active:waits",
        "plus 5 s of jitter. It passes over 2026-11-18.",
        "trigger",
    ),
    (job(kind="none"), "active:no_schedule", "runs when it is triggered", "trigger"),
    (job(kind="once", last_ms=NOW_MS - 1), "active:over", "It was to run once", "trigger"),
    (
        job(last_ms=NOW_MS - 1, end_ms=NOW_MS - 1),
        "active:schedule_ended",
        "by its end_at",
        f"job update {JOB}",
    ),
    (job(last_ms=NOW_MS - 1, max_runs=3), "active:schedule_ended", "by its max_runs", f"job update {JOB}"),
    (job(kind="unreadable"), "active:unreadable", "can't be read", f"job pause {JOB}"),
    (job(state="paused"), "paused:paused", "paused at 2026-11-18T11:00:00.000Z", f"job resume {JOB}"),
    (job(state="completed", last_ms=NOW_MS), "completed:completed", "nothing of it is left", "trigger"),
    (job(state="deleted"), "deleted:deleted", "deleted at 2026-11-18T11", "job create"),
]
CASES += [
    (facts(job=one, execution_id=None, scheduled_ms=None, fire_ms=None), answer, words, remedy)
    for one, answer, words, remedy in ABOUT_JOBS
]
NOT_RUN = ParentFacts("job", OTHER_ID, None, "", OTHER_ID, "pending")
UNDER_WAY = NOT_RUN._replace(root_kind="dag", run_id=EXECUTION_ID, run_state="running", state="retry_wait")
OTHER = text_of(OTHER_ID)
ABOUT_CHILDREN: list[tuple[list[ParentFacts], str, str, str]] = [
    ([NOT_RUN], "active:waits_for_root", f"it runs after {OTHER}", f"job trigger {OTHER}"),
    (
        [UNDER_WAY, UNDER_WAY._replace(state="succeeded", parent_id=JOB_ID)],
        "active:waits_for_parents",
        f"waits for its parents: {OTHER} (retry_wait).",
        f"explain {OTHER}",
    ),
    (
        [UNDER_WAY._replace(state="succeeded", run_state="succeeded")],
        "active:waits_for_root",
        f"run {EXECUTION} is succeeded",
        f"dag trigger {OTHER}",
    ),
]
OF_NO_TIME: dict[str, Any] = {"execution_id": None, "scheduled_ms": None, "fire_ms": None}
CASES += [
    (facts(job=job(kind="none"), parents=parents, **OF_NO_TIME), answer, words, remedy)
    for parents, answer, words, remedy in ABOUT_CHILDREN
]
CASES.append(
    (
        facts(execution_id=None, partition=BEHIND),
        "not_fired:owner_behind",
        "Its time 2026-11-18T11:59:00.000Z has no execution. It was due",
        "partition list",
    )
)


@pytest.mark.parametrize(("asked", "answer", "words", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_the_answer_has_the_reason_in_words_and_a_command(
    asked: Facts, answer: str, words: str, remedy: str
) -> None:
    found = explain(asked)
    assert f"{found.state}:{found.reason}" == answer
    assert words in found.sentence
    assert remedy in found.remedy
    assert re.search(r"`shardctl [a-z]+", found.remedy)
    assert not re.search(r"None|\{|\bnan\b", found.sentence + found.remedy)
    assert found.sentence.endswith(".") and found.remedy.endswith(".")


def test_every_reason_that_rows_name_has_a_line_above() -> None:
    answers = {case[1] for case in CASES}
    assert {f"dead:{reason}" for reason in GIVEN_UP} <= answers
    said = " ".join(explain(case[0]).sentence for case in CASES)
    assert all(words in said for words in QUEUED_AGAIN.values())


def test_a_job_comes_with_its_latest_execution_and_the_facts() -> None:
    latest = facts(row("succeeded", started_ms=SCHEDULED_MS, ended_ms=NOW_MS), attempts=[FAILED])
    shown = shown_explanation(
        facts(
            job=job(next_ms=NOW_MS, next_fire_ms=NOW_MS), execution_id=None, scheduled_ms=None, latest=latest
        )
    )
    lines = for_people(shown)
    assert (lines["latest id"], lines["latest reason"], "facts" in lines) == (EXECUTION, "on_time", False)
    assert list(shown) == ["id", "kind", "state", "reason", "sentence", "remedy", "facts"]
    assert (shown["id"], shown["kind"]) == (JOB, "job")
    inner = shown["facts"]["latest_execution"]
    assert (inner["id"], inner["kind"], inner["reason"]) == (EXECUTION, "execution", "on_time")
    assert inner["facts"]["execution"]["started_at"] == "2026-11-18T11:59:00.000Z"
    assert inner["facts"]["attempts"][0]["error_class"] == "ValueError"
    assert inner["facts"]["job"]["timeout_ms"] == 60_000
    assert inner["facts"]["partition"]["owner"] == "shard-a"


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (350, "350 ms"),
        (12_000, "12 s"),
        (119_000, "119 s"),
        (300_000, "5 min"),
        (9_000_000, "2.5 h"),
        (3 * 86_400_000, "3 days"),
    ],
)
def test_lengths_of_time_are_said_as_people_say_them(length_ms: int, text: str) -> None:
    assert span_text(length_ms) == text


def test_the_page_has_every_state_and_reason_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("|")][2:]
    named: set[str] = set()
    states: list[str] = []
    for state, reason in rows:
        states = re.findall(r"`(\w+)`", state) or states
        named |= {f"{one}:{why}" for one in states for why in re.findall(r"`(\w+)`", reason)}
    answers = {case[1] for case in CASES}
    assert answers <= named
    assert {one.partition(":")[2] for one in named} == {one.partition(":")[2] for one in answers}
