"""How an isolated attempt is judged by what was seen of its end."""

from __future__ import annotations

import signal

import pytest

from shardwheel.isolation import Limits
from shardwheel.wire import Outcome
from shardwheel.workers.frames import Ended, Finished
from shardwheel.workers.verdict import verdict

LIMITS = Limits(cpu_s=5)


@pytest.mark.parametrize(
    ("ended", "outcome", "error_class", "message"),
    [
        (Ended(None, -signal.SIGXCPU, 5.0), Outcome.FAILED, "CpuLimitExceeded", "cpu_s=5"),
        (Ended(None, -signal.SIGKILL, 6.0), Outcome.FAILED, "CpuLimitExceeded", "cpu_s=5"),
        (Ended(None, -signal.SIGKILL, 1.0), Outcome.FAILED, "ChildDied", "signal SIGKILL"),
        (
            Ended(None, -signal.SIGKILL, 1.0, 0, True),
            Outcome.FAILED,
            "MemoryLimitExceeded",
            "out of memory",
        ),
        (Ended(None, -34), Outcome.FAILED, "ChildDied", "signal "),
        (Ended(None, 7), Outcome.FAILED, "ChildDied", "exit code 7"),
        (Ended(None, -signal.SIGKILL, overdue=True), Outcome.TIMED_OUT, "TimeoutError", "in time"),
        (Ended(Finished("strange"), 0), Outcome.FAILED, "ChildDied", "'strange'"),
        (Ended(Finished("value", output=b"{"), 0), Outcome.FATAL, "DecodeError", "truncated"),
        (Ended(Finished("value", output=b'"' + b"x" * 20_000 + b'"'), 0), Outcome.FATAL, "Fatal", "output"),
    ],
)
def test_the_reason_is_named(ended: Ended, outcome: Outcome, error_class: str, message: str) -> None:
    end = verdict(ended, LIMITS, ())
    assert (end.outcome, end.error_class) == (outcome, error_class)
    assert message in end.message


def test_what_the_child_said_counts_more_than_how_it_died() -> None:
    ended = Ended(Finished("retryable", "Retryable", "later", "trace", b"", 50), -signal.SIGKILL)
    end = verdict(ended, LIMITS, ())
    assert (end.outcome, end.message, end.retry_after_ms) == (Outcome.RETRYABLE, "later", 50)


@pytest.mark.parametrize("wish", [-7, 10**13])
def test_a_wait_that_is_none_becomes_the_backoff(wish: int) -> None:
    assert verdict(Ended(Finished("retryable", retry_after_ms=wish), 0), LIMITS, ()).retry_after_ms == -1


def test_what_a_child_says_is_cut_and_blotted() -> None:
    finished = Finished("failed", "E" * 999, "m" * 99_999, "t" * 99_999 + "hidden")
    end = verdict(Ended(finished, 0), LIMITS, ("hidden",))
    assert (len(end.error_class), len(end.message), len(end.traceback)) == (200, 4_000, 16_000)
    assert end.traceback.endswith("[secret]")
