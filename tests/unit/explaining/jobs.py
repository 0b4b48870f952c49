"""Of a job: when it runs next, or why it does not."""

from __future__ import annotations

from typing import Any

from shardwheel.explanation import JobFacts, ParentFacts
from shardwheel.ids import text_of
from tests.unit.explaining.scene import (
    EXECUTION,
    EXECUTION_ID,
    HOUR_MS,
    JOB,
    JOB_ID,
    NOW_MS,
    OTHER_ID,
    Case,
    facts,
    job,
)

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
CASES: list[Case] = [
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
