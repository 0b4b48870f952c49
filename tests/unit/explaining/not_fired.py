"""Of a run that has no row: it is yet to come, nobody fires it, or it never will be."""

from __future__ import annotations

from shardwheel.explanation import PartitionFacts, SpanFacts, TaskFacts
from tests.unit.explaining.scene import (
    BEHIND,
    EXECUTION,
    HOUR_MS,
    JOB,
    NOW_MS,
    SCHEDULED_MS,
    WELL,
    Case,
    facts,
    job,
)

SKIPS = SpanFacts(SCHEDULED_MS - HOUR_MS, NOW_MS, 61, "misfire", True)

CASES: list[Case] = [
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
    (
        facts(execution_id=None, partition=BEHIND),
        "not_fired:owner_behind",
        "Its time 2026-11-18T11:59:00.000Z has no execution. It was due",
        "partition list",
    ),
]
