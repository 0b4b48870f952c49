"""Failure classes: what is tried again, when, and what is given up."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.execution import ExecutionState
from shardwheel.handler import LONGEST_WAIT_MS
from shardwheel.retry import Backoff, Decision, History, decide, wait_ms
from shardwheel.wire import Outcome

ID = bytes(range(16))
EVEN = Backoff(jitter=0)
NEW = History(failures=0, timeouts=0, crashes=0)


def after(outcome: Outcome, history: History = NEW, retries: int = 3, **more: Any) -> Decision:
    return decide(
        outcome, history, execution_id=ID, ended_ms=1_000_000, max_retries=retries, backoff=EVEN, **more
    )


def test_success_and_what_was_given_back_are_no_failures() -> None:
    assert after(Outcome.SUCCEEDED) == (ExecutionState.SUCCEEDED, "", None, 0)
    assert after(Outcome.RELEASED) == (ExecutionState.QUEUED, "released", 1_000_000, 0)
    assert after(Outcome.CANCELLED).state is ExecutionState.CANCELLED


def test_failures_wait_by_the_backoff_until_the_retries_are_used_up() -> None:
    waits = []
    for failures in range(3):
        decision = after(Outcome.FAILED, History(failures, 0, 0))
        assert decision.state is ExecutionState.RETRY_WAIT
        assert decision.due_ms is not None
        waits.append(decision.due_ms - 1_000_000)
    assert waits == [30_000, 60_000, 120_000]
    assert after(Outcome.FAILED, History(3, 0, 0)) == (ExecutionState.DEAD, "retries_exhausted", None, 4)
    assert after(Outcome.FAILED, retries=0).reason == "retries_exhausted"


def test_the_handler_may_say_when() -> None:
    assert after(Outcome.RETRYABLE, retry_after_ms=5).due_ms == 1_000_005
    assert after(Outcome.RETRYABLE, retry_after_ms=0).due_ms == 1_000_000


@pytest.mark.parametrize("wish", [-2, LONGEST_WAIT_MS + 1, 10**13])
def test_a_wish_beyond_all_waits_falls_back_to_the_backoff(wish: int) -> None:
    assert after(Outcome.RETRYABLE, retry_after_ms=wish).due_ms == 1_030_000
    longest = after(Outcome.RETRYABLE, retry_after_ms=LONGEST_WAIT_MS)
    assert longest.due_ms == 1_000_000 + LONGEST_WAIT_MS


def test_fatal_errors_and_a_second_time_out_are_given_up() -> None:
    assert after(Outcome.FATAL).reason == "fatal"
    assert after(Outcome.TIMED_OUT).state is ExecutionState.RETRY_WAIT
    assert after(Outcome.TIMED_OUT, History(1, 1, 0)).reason == "timed_out"


def test_three_failures_within_a_minute_are_poison() -> None:
    recent = History(2, 0, 0, recent_failures_at_ms=(940_001, 990_000))
    assert after(Outcome.FAILED, recent, retries=10).reason == "poison"
    older = History(2, 0, 0, recent_failures_at_ms=(940_000, 990_000))
    assert after(Outcome.FAILED, older, retries=10).state is ExecutionState.RETRY_WAIT


def test_a_crash_is_no_failure_but_two_are_poison() -> None:
    assert after(Outcome.CRASHED) == (ExecutionState.QUEUED, "worker_crashed", 1_000_000, 0)
    assert after(Outcome.CRASHED, History(0, 0, 1)).reason == "poison"


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff(kind="fixed", base_s=5, jitter=0), [5_000, 5_000, 5_000]),
        (Backoff(kind="linear", base_s=5, jitter=0), [5_000, 10_000, 15_000]),
        (Backoff(base_s=1, factor=10, max_s=50, jitter=0), [1_000, 10_000, 50_000]),
    ],
)
def test_kinds_of_backoff(backoff: Backoff, waits: list[int]) -> None:
    assert [wait_ms(backoff, n, ID) for n in (1, 2, 3)] == waits


def test_jitter_spreads_within_its_share_and_repeats_itself() -> None:
    backoff = Backoff(kind="fixed", base_s=100, jitter=0.1)
    waits = [wait_ms(backoff, 1, n.to_bytes(16, "big")) for n in range(200)]
    assert all(90_000 <= wait <= 110_000 for wait in waits)
    assert len(set(waits)) > 150
    assert waits == [wait_ms(backoff, 1, n.to_bytes(16, "big")) for n in range(200)]


def test_an_endless_number_of_failures_does_not_overflow() -> None:
    assert wait_ms(EVEN, 1_000_000, ID) == 1_800_000
