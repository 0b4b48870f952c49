"""Of a row that will not run."""

from __future__ import annotations

from tests.unit.explaining.scene import JOB, Case, facts, job, row

CASES: list[Case] = [
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
]
