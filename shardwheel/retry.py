"""What becomes of an attempt that did not succeed: again, when, or never. Pure: history in, decision out.

By class, as the design says: an application's error by the job's backoff; a time-out once; a fatal error
straight to the dead letters; a worker's crash, or work that a worker gave back, without counting as a
failure. Poison is given up early: three failures within a minute, or two crashed workers; and everything
while its tenant has had more retries than its first attempts allow.

    max_retries=3, backoff 30 s × 2:  fails → +30 s → fails → +60 s → fails → +120 s → fails → dead
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from shardwheel.execution import ExecutionState
from shardwheel.handler import is_wait
from shardwheel.wire import Outcome

POISON_FAILURES = 3
POISON_WINDOW_MS = 60_000
POISON_CRASHES = 2
TIMEOUT_RETRIES = 1


class Backoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait before the next attempt. `jitter` spreads each wait by ± that share."""

    kind: Literal["exponential", "linear", "fixed"] = "exponential"
    base_s: float = 30.0
    factor: float = 2.0
    max_s: float = 1800.0
    jitter: float = 0.1


class History(NamedTuple):
    """What happened to the execution before this attempt ended."""

    failures: int
    timeouts: int
    crashes: int
    recent_failures_at_ms: tuple[int, ...] = ()


class Decision(NamedTuple):
    """The execution's next state; `due_ms` when it waits; `failures` as it stands from now on."""

    state: ExecutionState
    reason: str
    due_ms: int | None
    failures: int


def wait_ms(backoff: Backoff, failures: int, execution_id: bytes) -> int:
    """The wait after the n-th failure. The jitter is a hash, so that a replay decides the same."""
    match backoff.kind:
        case "exponential":
            # The exponent is bounded: beyond it the wait is max_s anyway, and a float would overflow.
            wait_s = backoff.base_s * backoff.factor ** min(failures - 1, 64)
        case "linear":
            wait_s = backoff.base_s * failures
        case "fixed":
            wait_s = backoff.base_s
    digest = blake2b(execution_id + failures.to_bytes(4, "big"), digest_size=8).digest()
    spread = (int.from_bytes(digest, "big") / 2**63 - 1.0) * backoff.jitter
    return round(min(wait_s, backoff.max_s) * (1.0 + spread) * 1000)


def decide(
    outcome: Outcome,
    history: History,
    *,
    execution_id: bytes,
    ended_ms: int,
    max_retries: int,
    backoff: Backoff,
    retry_after_ms: int = -1,
    budget_spent: bool = False,
) -> Decision:
    """What follows from an attempt's outcome. `retry_after_ms` is the handler's own wish, if it is a wait;
    `budget_spent`: its tenant has no retries left for now."""
    failures = history.failures
    match outcome:
        case Outcome.SUCCEEDED:
            return Decision(ExecutionState.SUCCEEDED, "", None, failures)
        case Outcome.CANCELLED:
            return Decision(ExecutionState.CANCELLED, "cancelled", None, failures)
        case Outcome.RELEASED:
            return Decision(ExecutionState.QUEUED, "released", ended_ms, failures)
        case Outcome.CRASHED:
            return _after_crash(history, ended_ms)
    failures += 1
    given_up = _reason_to_give_up(outcome, history, failures, ended_ms, max_retries)
    if not given_up and budget_spent:
        given_up = "retry_budget"
    if given_up:
        return Decision(ExecutionState.DEAD, given_up, None, failures)
    pause_ms = retry_after_ms if is_wait(retry_after_ms) else wait_ms(backoff, failures, execution_id)
    return Decision(ExecutionState.RETRY_WAIT, "", ended_ms + pause_ms, failures)


def _after_crash(history: History, now_ms: int) -> Decision:
    """A worker died with the execution in hand: a new attempt at once, unless it kills workers."""
    if history.crashes + 1 >= POISON_CRASHES:
        return Decision(ExecutionState.DEAD, "poison", None, history.failures)
    return Decision(ExecutionState.QUEUED, "worker_crashed", now_ms, history.failures)


def _reason_to_give_up(
    outcome: Outcome, history: History, failures: int, ended_ms: int, max_retries: int
) -> str:
    recent = sum(1 for at_ms in history.recent_failures_at_ms if ended_ms - at_ms < POISON_WINDOW_MS)
    if outcome is Outcome.FATAL:
        return "fatal"
    if outcome is Outcome.TIMED_OUT and history.timeouts >= TIMEOUT_RETRIES:
        return "timed_out"
    if failures > max_retries:
        return "retries_exhausted"
    if recent + 1 >= POISON_FAILURES:
        return "poison"
    return ""
