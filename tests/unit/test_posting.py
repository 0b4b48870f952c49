"""A job as posted: defaults filled in, and every refusal names its field."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.errors import UsageError
from shardwheel.posting import PARAMS_LIMIT_BYTES, parse_posting

NOW_MS = 1_795_003_200_000


def test_a_task_alone_is_a_job_that_runs_once_now() -> None:
    posting = parse_posting({"task": "email.send"})
    timing = posting.timing(NOW_MS)
    assert (timing.schedule.kind, timing.anchor_ms) == ("once", NOW_MS)
    columns = posting.columns()
    assert (columns["priority"], columns["pool"], columns["timeout_ms"], columns["max_retries"]) == (
        2,
        "short",
        60_000,
        3,
    )
    assert (columns["misfire"], columns["misfire_grace_ms"], columns["catchup_window_ms"]) == (
        "fire_last",
        60_000,
        3_600_000,
    )


def test_a_whole_job_of_the_contract_is_taken() -> None:
    posting = parse_posting(
        {
            "task": "email.send",
            "name": "morning",
            "params": {"to": "a@b.c"},
            "cron": "0 9 * * 1-5",
            "time_zone": "Europe/Berlin",
            "exclude": ["2026-12-25"],
            "priority": "critical",
            "pool": "long",
            "backoff": {"kind": "fixed", "base_s": 1},
            "tags": ["billing"],
            "not_after_s": 5,
            "jitter_s": 2,
        }
    )
    assert posting.timing(NOW_MS).schedule.kind == "cron"
    columns = posting.columns()
    assert (columns["priority"], columns["not_after_ms"], columns["backoff"]["kind"]) == (0, 5_000, "fixed")


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "task", "missing"),
        ({"task": "a", "crn": "* * * * *"}, "crn", "no such field"),
        ({"task": ""}, "task", "0 characters"),
        ({"task": 7}, "task", "give a text"),
        ({"task": "a\0"}, "task", "NUL"),
        ({"task": "a", "name": "x" * 201}, "name", "201"),
        ({"task": "a", "params": [1]}, "params", "object"),
        ({"task": "a", "params": {"x": "y" * PARAMS_LIMIT_BYTES}}, "params", "bytes"),
        ({"task": "a", "params": {"x": [1e308] * 10_000}}, "params", "written out"),
        ({"task": "a", "params": {"x": "\0"}}, "params", "NUL"),
        ({"task": "a", "params": {"x": "\ud800"}}, "params", "JSON"),
        ({"task": "a", "tags": ["x"] * 33}, "tags", "too many"),
        ({"task": "a", "priority": "urgent"}, "priority", "urgent"),
        ({"task": "a", "timeout_s": 0}, "timeout_s", "out of range"),
        ({"task": "a", "max_retries": -1}, "max_retries", "out of range"),
        ({"task": "a", "backoff": {"factor": 0.5}}, "backoff.factor", "out of range"),
        (
            {"task": "a", "overlap": "often"},
            "overlap",
            "'often' is unknown; choose one of allow, queue, skip",
        ),
        ({"task": "a", "callback_url": "http://example.com/"}, "callback_url", "use https"),
        ({"task": "a", "callback_url": "https://10.0.0.1/"}, "callback_url", "not public"),
    ],
)
def test_refusals_name_the_field(body: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_posting(body)
    assert caught.value.field == field


def test_the_timing_is_refused_by_its_own_fields() -> None:
    with pytest.raises(UsageError) as caught:
        parse_posting({"task": "a", "cron": "61 * * * *"}).timing(NOW_MS)
    assert caught.value.field == "cron"
