"""Of a row that runs, or is believed to."""

from __future__ import annotations

from tests.unit.explaining.scene import EXECUTION, JOB, NOW_MS, SCHEDULED_MS, Case, facts, row

RUNS = row(
    "running", attempt=2, started_ms=SCHEDULED_MS + 100, times_out_ms=NOW_MS + 1, lease_until_ms=NOW_MS + 1
)

CASES: list[Case] = [
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
]
