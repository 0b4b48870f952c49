"""Of a row that is over, and well."""

from __future__ import annotations

from tests.unit.explaining.scene import EXECUTION, FAILED, JOB, NOW_MS, SCHEDULED_MS, Case, facts, row

CASES: list[Case] = [
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
