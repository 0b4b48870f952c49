"""Of a row that was given up, with its dead letter or without."""

from __future__ import annotations

from shardwheel.explanation import LetterFacts
from shardwheel.ids import text_of
from shardwheel.reasons import GIVEN_UP
from tests.unit.explaining.scene import EXECUTION, FAILED, JOB, NOW_MS, OTHER_ID, Case, facts, row

LETTER = LetterFacts(OTHER_ID, "open", "fatal", None)

CASES: list[Case] = [
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
]
