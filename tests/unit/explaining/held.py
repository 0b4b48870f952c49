"""Of a row that may not run yet."""

from __future__ import annotations

from shardwheel.explanation import TaskFacts
from shardwheel.ids import text_of
from tests.unit.explaining.scene import HOUR_MS, JOB, NOW_MS, OTHER_ID, Case, facts, job, row

CASES: list[Case] = [
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
]
