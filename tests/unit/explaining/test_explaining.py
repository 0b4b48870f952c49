"""Every state and every reason has its sentence and its remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardwheel.commands.explain import for_people
from shardwheel.explaining import explain, shown_explanation
from shardwheel.explanation import Facts, span_text
from shardwheel.reasons import GIVEN_UP, QUEUED_AGAIN
from tests.unit.explaining.cases import CASES
from tests.unit.explaining.scene import EXECUTION, FAILED, JOB, NOW_MS, SCHEDULED_MS, facts, job, row


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


def test_every_reason_that_rows_name_has_a_line() -> None:
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
    page = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("|")][2:]
    named: set[str] = set()
    states: list[str] = []
    for state, reason in rows:
        states = re.findall(r"`(\w+)`", state) or states
        named |= {f"{one}:{why}" for one in states for why in re.findall(r"`(\w+)`", reason)}
    answers = {case[1] for case in CASES}
    assert answers <= named
    assert {one.partition(":")[2] for one in named} == {one.partition(":")[2] for one in answers}
