"""Settling: a batch of results becomes states, attempts, retries and dead letters, in one transaction.

Success is decided without a look; a failure needs the row's history, so a batch with any failure locks
its rows first and decides on what it read under the lock. A replayed batch changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.dag_run import Ended
from shardwheel.execution import TERMINAL_STATES, ExecutionState, Resolved, Settled
from shardwheel.limits import WINDOW_S, Tally, TaskName, add_tallies, is_budget_spent
from shardwheel.retry import Backoff, Decision, History, decide
from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuids
from shardwheel.store.dag_resolve import resolve
from shardwheel.store.dag_runs import Run, lock_runs
from shardwheel.store.planning import plan_by_key
from shardwheel.store.sql import is_few, sql
from shardwheel.wire import Outcome, Result

# What an attempt is put on record as.
OUTCOME_WORDS = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.FAILED: "failed",
    Outcome.RETRYABLE: "failed",
    Outcome.FATAL: "failed",
    Outcome.TIMED_OUT: "timed_out",
    Outcome.RELEASED: "released",
    Outcome.CANCELLED: "cancelled",
    Outcome.CRASHED: "crashed",
}
_NOT_RUNS = frozenset({Outcome.RELEASED, Outcome.CANCELLED, Outcome.CRASHED})
_decode_backoff = msgspec.json.Decoder(Backoff).decode


class Applied(NamedTuple):
    """The states of attempts that were current, by execution, what followed in DAGs, and of how many ends
    their runs are to be told later."""

    states: dict[bytes, str]
    resolved: Resolved = Resolved()
    put_off: int = 0


def settle(conn: Connection[Any], results: Sequence[Result], *, put_off: bool = False) -> Settled:
    """Settle a batch; results of attempts that are not current are counted as stale and change nothing. With
    `put_off` no DAG run is locked: runs are told later (`dag_put_off`)."""
    if is_few(len(results)):
        plan_by_key(conn)
    run_ids = {result.dag_run_id for result in results if result.dag_run_id}
    # Before the executions, as everybody does.
    locked = lock_runs(conn, run_ids) if run_ids and not put_off else {}
    return end_attempts(conn, results, locked=locked, put_off=put_off)


def end_attempts(
    conn: Connection[Any],
    results: Sequence[Result],
    *,
    locked: Mapping[bytes, Run] | None = None,
    put_off: bool = False,
) -> Settled:
    """Decide and write how running attempts ended, whoever says so (their workers, or the sweep of those that
    are lost or hang): the one way out of `running`."""
    applied = _apply(conn, _decide_all(conn, results), locked, put_off)
    stale = len(results) - len(applied.states)
    by_state = dict(Counter(applied.states.values()))
    return Settled(by_state, stale, _tallies(results, applied.states), applied.resolved, applied.put_off)


def _apply(
    conn: Connection[Any],
    decided: Sequence[tuple[Result, Decision]],
    locked: Mapping[bytes, Run] | None,
    put_off: bool,
) -> Applied:
    """Write what was decided, bury the dead, and let DAGs go on, or write down that they are to. Whatever was
    told of an attempt that is not current is not among those that were."""
    if not decided:
        return Applied({})
    parameters = _parameters(decided) | {"put_off": put_off}
    rows = conn.execute(sql("settle"), parameters, binary=True, prepare=is_few(len(decided))).fetchall()
    states = {row[0]: row[1] for row in rows}
    dead = [execution_id for execution_id, state in states.items() if state == ExecutionState.DEAD]
    if dead:
        conn.execute(sql("bury"), {"execution_ids": Uuids(dead)}, prepare=False)
    ended = [
        Ended(run_id, task_id, item_no, state, reason)
        for _, state, run_id, task_id, item_no, reason in rows
        if run_id is not None and state in TERMINAL_STATES
    ]
    if put_off:
        return Applied(states, put_off=len(ended))
    return Applied(states, resolve(conn, ended, locked))


def _tallies(results: Sequence[Result], states: Mapping[bytes, str]) -> dict[TaskName, Tally]:
    """How runs ended, by task type. What a worker gave back or somebody cancelled is not a run; of two
    results of one execution the later attempt's is the one that was settled."""
    counted: dict[TaskName, Tally] = {}
    latest = {result.execution_id: result for result in sorted(results, key=lambda result: result.attempt)}
    told = Counter(
        (result.tenant_id, result.task, result.outcome, result.attempt == 1, states[result.execution_id])
        for result in latest.values()
        if result.execution_id in states and result.outcome not in _NOT_RUNS
    )
    for (tenant_id, task, outcome, first, state), count in told.items():
        tally = Tally(
            count,
            count * (outcome != Outcome.SUCCEEDED),
            count * first,
            count * (state == ExecutionState.RETRY_WAIT),
        )
        add_tallies(counted, {TaskName(tenant_id, task): tally})
    return counted


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
        history, max_retries, backoff, budget_spent = known
        decision = decide(
            Outcome(result.outcome),
            history,
            execution_id=result.execution_id,
            ended_ms=result.ended_ms,
            max_retries=max_retries,
            backoff=backoff,
            retry_after_ms=result.retry_after_ms,
            budget_spent=budget_spent,
        )
        decided.append((result, decision))
    return decided


def _lock(
    conn: Connection[Any], results: Sequence[Result]
) -> dict[bytes, tuple[History, int, Backoff, bool]]:
    parameters = {
        "window": timedelta(seconds=WINDOW_S),
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
            is_budget_spent(firsts, retries),
        )
        for execution_id, failures, crashes, max_retries, backoff, timeouts, recent, firsts, retries in rows
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
        "outcomes": Texts([OUTCOME_WORDS[Outcome(result.outcome)] for result in results]),
        "crashed": Booleans(result.outcome == Outcome.CRASHED for result in results),
        "classes": Texts([result.error_class for result in results]),
        "messages": Texts([result.message for result in results]),
        "tracebacks": Texts([result.traceback for result in results]),
        "workers": Texts([result.worker for result in results]),
        "started": Bigints([result.started_ms for result in results]),
        "ended": Bigints([result.ended_ms for result in results]),
        "outputs": Texts([result.output.decode() for result in results]),
    }
