"""Of a row that waits for its time or for a worker."""

from __future__ import annotations

from tests.unit.explaining.scene import BEHIND, EXECUTION, FAILED, JOB, NOW_MS, Case, facts, row

CASES: list[Case] = [
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
]
