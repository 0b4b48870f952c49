"""Settling: a batch of results becomes states, attempts, retries and dead letters, in one transaction.

Success is decided without a look; a failure needs the row's history, so a batch with any failure locks
its rows first and decides on what it read under the lock. A replayed batch changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg import Connection

from shardwheel.execution import ExecutionState, Settled
from shardwheel.retry import Backoff, Decision, History, decide
from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuids
from shardwheel.store.sql import sql
from shardwheel.wire import Outcome, Result

# What an attempt is put on record as.
_OUTCOME_WORDS = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.FAILED: "failed",
    Outcome.RETRYABLE: "failed",
    Outcome.FATAL: "failed",
    Outcome.TIMED_OUT: "timed_out",
    Outcome.RELEASED: "released",
    Outcome.CANCELLED: "cancelled",
    Outcome.CRASHED: "crashed",
}
_decode_backoff = msgspec.json.Decoder(Backoff).decode


def settle(conn: Connection[Any], results: Sequence[Result]) -> Settled:
    """Settle a batch; results of attempts that are not current are counted as stale and change nothing."""
    by_state = apply_decisions(conn, _decide_all(conn, results))
    return Settled(by_state, len(results) - sum(by_state.values()))


def apply_decisions(
    conn: Connection[Any], decided: Sequence[tuple[Result, Decision]], *, crashed: bool = False
) -> dict[str, int]:
    """Write what was decided of running attempts, and bury the dead: the one way out of `running`."""
    if not decided:
        return {}
    parameters = _parameters(decided) | {"crashed": Booleans(crashed for _ in decided)}
    rows = conn.execute(sql("settle"), parameters, binary=True, prepare=False).fetchall()
    dead = [execution_id for execution_id, state in rows if state == ExecutionState.DEAD]
    if dead:
        conn.execute(sql("bury"), {"execution_ids": Uuids(dead)}, prepare=False)
    return dict(Counter(state for _, state in rows))


def _decide_all(conn: Connection[Any], results: Sequence[Result]) -> list[tuple[Result, Decision]]:
    if all(result.outcome == Outcome.SUCCEEDED for result in results):
        success = Decision(ExecutionState.SUCCEEDED, "", None, 0)
        return [(result, success) for result in results]
    histories = _lock(conn, results)
    decided = []
    for result in results:
        known = histories.get(result.execution_id)
        if known is None:
            continue
        history, max_retries, backoff = known
        decision = decide(
            Outcome(result.outcome),
            history,
            execution_id=result.execution_id,
            ended_ms=result.ended_ms,
            max_retries=max_retries,
            backoff=backoff,
            retry_after_ms=result.retry_after_ms,
        )
        decided.append((result, decision))
    return decided


def _lock(conn: Connection[Any], results: Sequence[Result]) -> dict[bytes, tuple[History, int, Backoff]]:
    parameters = {
        "execution_ids": Uuids([result.execution_id for result in results]),
        "attempts": Bigints([result.attempt for result in results]),
        "tokens": Uuids([result.claim_token for result in results]),
    }
    rows = conn.execute(sql("settle_lock"), parameters, binary=True, prepare=False)
    return {
        execution_id: (
            History(failures, timeouts, crashes, tuple(recent)),
            max_retries,
            _decode_backoff(backoff),
        )
        for execution_id, failures, crashes, max_retries, backoff, timeouts, recent in rows
    }


def _parameters(decided: Sequence[tuple[Result, Decision]]) -> dict[str, Any]:
    results = [result for result, _ in decided]
    decisions = [decision for _, decision in decided]
    return {
        "execution_ids": Uuids([result.execution_id for result in results]),
        "attempts": Bigints([result.attempt for result in results]),
        "tokens": Uuids([result.claim_token for result in results]),
        "states": Texts([decision.state.value for decision in decisions]),
        "reasons": Texts([decision.reason for decision in decisions]),
        "due": Bigints([decision.due_ms or 0 for decision in decisions]),
        "failures": Bigints([decision.failures for decision in decisions]),
        "outcomes": Texts([_OUTCOME_WORDS[Outcome(result.outcome)] for result in results]),
        "classes": Texts([result.error_class for result in results]),
        "messages": Texts([result.message for result in results]),
        "tracebacks": Texts([result.traceback for result in results]),
        "workers": Texts([result.worker for result in results]),
        "started": Bigints([result.started_ms for result in results]),
        "ended": Bigints([result.ended_ms for result in results]),
        "outputs": Texts([result.output.decode() for result in results]),
    }
