"""Mistakes in what DAG runs do: joining, failing, fanning out, hands, and telling the children."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from shardwheel.dag_run import Ended, Readiness
from shardwheel.execution import Resolved, Settled
from shardwheel.memory import claim_statements, rows
from shardwheel.memory.claim_statements import Chosen
from shardwheel.memory.connection import STATEMENTS, Given, Written
from shardwheel.memory.dag_rows import DAG_COUNTERS, DAG_PUT_OFF, DAG_RUNS, DagCounter
from shardwheel.memory.dag_statements import edges_of, executions_of, tasks_of, versions_of
from shardwheel.memory.rows import Execution
from shardwheel.memory.transaction import Transaction
from shardwheel.store import dag_resolve, dag_tasks, settle, sweep
from shardwheel.store.dag_resolve import Resolution
from shardwheel.store.dag_runs import Run
from shardwheel.store.dag_tasks import NewTask
from shardwheel.store.job_row import JobRow
from tests.simulation.dag_runs import FAILED, SATISFIED, is_over, word_of
from tests.simulation.planting import mutant, statement_replaced

# --- locks and joins ----------------------------------------------------------------------------------


def _put_blindly(transaction: Transaction, table: str, key: Any, row: Any) -> None:
    """What an UPDATE by values that were read before does: it waits for nobody's word."""
    transaction._writes.setdefault(table, {})[key] = row
    _ = transaction.xid


def _unlocked_runs() -> Sequence[Any]:
    lock_runs, store_runs = STATEMENTS["dag_lock_runs"], STATEMENTS["dag_store_runs"]

    def unlocked(transaction: Transaction, given: Given) -> list[Any]:
        with patch.object(Transaction, "lock", lambda *args: None):
            return lock_runs(transaction, given)

    def stored(transaction: Transaction, given: Given) -> list[Any]:
        with patch.object(Transaction, "put", _put_blindly):
            return store_runs(transaction, given)

    return [statement_replaced("dag_lock_runs", unlocked), statement_replaced("dag_store_runs", stored)]


@mutant("a run is not locked when a task of it ends")
def run_unlocked() -> Sequence[Any]:
    return _unlocked_runs()


@mutant("readiness is counted from the parents' rows, without the run's lock")
def counted_rows() -> Sequence[Any]:
    def by_rows(transaction: Transaction, given: Given) -> list[Any]:
        names = ("run_ids", "dag_ids", "versions", "task_ids")
        ready = {}
        for run_id, dag_id, version, task_id in zip(*(given[name] for name in names), strict=True):
            edges = list(edges_of(transaction, dag_id, version))
            words = {
                row.job_id: word_of(row) for row in executions_of(transaction, run_id) if row.item_no is None
            }
            fans = {task.task_id: task.fan_out for task in tasks_of(transaction, dag_id, version)}
            for child_id in [edge.child_id for edge in edges if edge.parent_id == task_id]:
                above = [words.get(edge.parent_id, "") for edge in edges if edge.child_id == child_id]
                counts = _counts(above)
                _put_blindly(
                    transaction, DAG_COUNTERS, (run_id, child_id), DagCounter(run_id, child_id, *counts)
                )
                if not counts.pending:
                    ready[run_id, child_id] = (run_id, child_id, fans[child_id], *counts)
        return list(ready.values())

    return [*_unlocked_runs(), statement_replaced("dag_count_down", by_rows)]


def _counts(words: Sequence[str]) -> Readiness:
    over = [word for word in words if is_over(word)]
    failed = sum(word in FAILED for word in over)
    return Readiness(len(words) - len(over), failed, sum(word not in SATISFIED for word in over) - failed)


@mutant("a join is taken down once for two parents of one batch")
def joined_once() -> Sequence[Any]:
    def once_a_child(transaction: Transaction, given: Given) -> list[Any]:
        names = ("run_ids", "dag_ids", "versions", "task_ids", "failed", "skipped")
        columns: dict[str, list[Any]] = {name: [] for name in names}
        told: set[tuple[bytes, bytes]] = set()
        for values in zip(*(given[name] for name in names), strict=True):
            run_id, dag_id, version, task_id = values[:4]
            edges = edges_of(transaction, dag_id, version)
            children = {(run_id, edge.child_id) for edge in edges if edge.parent_id == task_id}
            if not children & told:
                for name, value in zip(names, values, strict=True):
                    columns[name].append(value)
            told |= children
        return count_down(transaction, given | columns)

    count_down = STATEMENTS["dag_count_down"]
    return [statement_replaced("dag_count_down", once_a_child)]


@mutant("results that are replayed count twice")
def counted_twice() -> Sequence[Any]:
    right = STATEMENTS["settle"]

    def told_again(transaction: Transaction, given: Given) -> list[Any]:
        settled = right(transaction, given)
        known = {row[0] for row in settled}
        for execution_id, attempt in zip(given["execution_ids"], given["attempts"], strict=True):
            row: Execution | None = transaction.get(rows.EXECUTIONS, execution_id)
            if row is not None and execution_id not in known and row.attempt == attempt:
                settled.append((execution_id, row.state, row.dag_run_id, row.job_id, row.item_no, row.reason))
        return settled

    return [statement_replaced("settle", told_again)]


@mutant("a redelivered fire of a DAG begins its run again")
def begun_again() -> Sequence[Any]:
    right, start = claim_statements.may_write, STATEMENTS["dag_start"]

    def may_write(said: Any, job: JobRow, row: Execution | None, tasks: list[str]) -> bool:
        runs = row is not None and row.state == "running" and job.kind == "dag"
        return runs or right(said, job, row, tasks)

    def anew(transaction: Transaction, given: Given) -> list[Any]:
        for run_id in given["execution_ids"]:
            transaction.put(DAG_RUNS, run_id, None)
        return start(transaction, given)

    return [patch.object(claim_statements, "may_write", may_write), statement_replaced("dag_start", anew)]


@mutant("a run goes on with its DAG's newest version")
def version_not_pinned() -> Sequence[Any]:
    lock_runs = STATEMENTS["dag_lock_runs"]

    def newest(transaction: Transaction, given: Given) -> list[Any]:
        return [
            (*row[:4], versions_of(transaction, row[3])[-1].version, *row[5:])
            for row in lock_runs(transaction, given)
        ]

    return [statement_replaced("dag_lock_runs", newest)]


# --- telling the children -----------------------------------------------------------------------------


@mutant("the children of what the claim found unfit to run are not told")
def doomed_untold() -> Sequence[Any]:
    skip = STATEMENTS["dag_skip_doomed"]

    def untold(transaction: Transaction, given: Given) -> list[Any]:
        skip(transaction, given)
        return []

    return [statement_replaced("dag_skip_doomed", untold)]


@mutant("the children of a task that the sweep ended are not told")
def lost_untold() -> Sequence[Any]:
    end_attempts = settle.end_attempts

    def untold(*args: Any, **kwargs: Any) -> Settled:
        with patch.object(settle, "resolve", lambda *args: Resolved()):
            return end_attempts(*args, **kwargs)

    return [patch.object(sweep, "end_attempts", untold)]


@mutant("the children of what was completed or skipped by hand are not told")
def hand_untold() -> Sequence[Any]:
    follow = Resolution.follow

    def but_not_by_hand(self: Resolution, ended: Sequence[Ended]) -> None:
        told = list(ended)
        follow(
            self, [one for one in told if one.state != "force_completed" and "hand" not in (one.reason or "")]
        )

    return [patch.object(Resolution, "follow", but_not_by_hand)]


@mutant("the children of a cancelled task are not told")
def cancel_untold() -> Sequence[Any]:
    follow = Resolution.follow

    def but_not_cancelled(self: Resolution, ended: Sequence[Ended]) -> None:
        follow(self, [one for one in ended if (one.state, one.reason) != ("cancelled", "cancelled")])

    return [patch.object(Resolution, "follow", but_not_cancelled)]


# --- policies and cancelled runs ----------------------------------------------------------------------


def _stop_only(self: Resolution, run: Run, state: str, reason: str) -> None:
    """What waits ends, what runs is asked to stop, and what waits for its parents is forgotten."""
    self.follow(self._stop(run, None, state, reason))


@mutant("a cancelled run still queues children")
def cancelled_queues() -> Sequence[Any]:
    return [
        patch.object(Run, "goes_on", property(lambda run: run.reason != "failed_fast")),
        patch.object(Resolution, "stop", _stop_only),
    ]


@mutant("what fails in a cancelled run is tried again")
def cancelled_retries() -> Sequence[Any]:
    return [statement_replaced("dag_ask_to_stop", lambda transaction, given: [])]


@mutant("fail_fast lets everything else begin")
def fails_slowly() -> Sequence[Any]:
    def nothing_failed(self: Resolution, run: Run, state: str) -> None:
        return None

    return [patch.object(Resolution, "_note_failure", nothing_failed)]


@mutant("a skipped parent lets its child run")
def skipped_satisfies() -> Sequence[Any]:
    def only_failures(self: Readiness) -> str | None:
        return "upstream_failed" if self.failed else None

    return [patch.object(Readiness, "skip_as", property(only_failures))]


@mutant("a failed parent is forgotten when another one succeeds later")
def last_word_counts() -> Sequence[Any]:
    def by_pending(self: Readiness) -> str | None:
        return "upstream_failed" if self.failed > 1 else None

    return [patch.object(Readiness, "skip_as", property(by_pending))]


@mutant("what was skipped for a failed task stays skipped when that one runs again")
def stays_skipped() -> Sequence[Any]:
    requeue = STATEMENTS["dag_requeue"]

    def but_not_skipped(transaction: Transaction, given: Given) -> list[Any]:
        with patch("shardwheel.memory.dag_again_statements._SKIPPED_FOR_OTHERS", ()):
            return requeue(transaction, given)

    return [statement_replaced("dag_requeue", but_not_skipped)]


@mutant("what runs again does not count its children's parents anew")
def not_recounted() -> Sequence[Any]:
    return [statement_replaced("dag_set_counters", lambda transaction, given: [Written()])]


@mutant("a run that is over leaves its fire running")
def fire_runs_on() -> Sequence[Any]:
    end_tasks = STATEMENTS["dag_end_tasks"]

    def but_not_fires(transaction: Transaction, given: Given) -> list[Any]:
        fires = [transaction.get(DAG_RUNS, one) is not None for one in given["execution_ids"]]
        return [] if any(fires) else end_tasks(transaction, given)

    return [statement_replaced("dag_end_tasks", but_not_fires)]


# --- fan-outs -----------------------------------------------------------------------------------------


def _fan_down(changed: Callable[[Given], Given]) -> Sequence[Any]:
    fan_down = STATEMENTS["dag_fan_down"]
    return [
        statement_replaced("dag_fan_down", lambda transaction, given: fan_down(transaction, changed(given)))
    ]


@mutant("a fan-out is taken down once for two items of one batch")
def fan_down_once() -> Sequence[Any]:
    def first_of_each(given: Given) -> Given:
        keys = list(zip(given["run_ids"], given["task_ids"], strict=True))
        places = sorted({key: place for place, key in enumerate(keys)}.values())
        names = ("run_ids", "task_ids", "failed", "skipped")
        return given | {name: [given[name][place] for place in places] for name in names}

    return _fan_down(first_of_each)


@mutant("a failed item does not fail its fan-out")
def items_never_fail() -> Sequence[Any]:
    return _fan_down(lambda given: given | {"failed": [False for _ in given["failed"]]})


@mutant("a skipped item does not skip its fan-out")
def items_never_skipped() -> Sequence[Any]:
    return _fan_down(lambda given: given | {"skipped": [False for _ in given["skipped"]]})


@mutant("a fan-out of an empty list waits for an item")
def empty_list_waits() -> Sequence[Any]:
    fan_out = dag_tasks.fan_out

    def never_at_once(conn: Any, run: Run, task_id: bytes) -> list[NewTask]:
        return [
            task._replace(state="running") if task.state == "succeeded" else task
            for task in fan_out(conn, run, task_id)
        ]

    return [patch.object(dag_resolve, "fan_out", never_at_once)]


# --- pausing ------------------------------------------------------------------------------------------


@mutant("the claim of a task does not look at its DAG's state")
def dag_state_ignored() -> Sequence[Any]:
    return [patch.object(Chosen, "state", property(lambda one: one.job.state))]


# --- what is put off while results lag ----------------------------------------------------------------


@mutant("an end that was put off is told twice")
def told_twice() -> Sequence[Any]:
    take = STATEMENTS["dag_take_put_off"]

    def kept(transaction: Transaction, given: Given) -> list[Any]:
        owed = dict(transaction.rows(DAG_PUT_OFF))
        taken = take(transaction, given)
        for key, row in owed.items():
            if row.put_off_ms > transaction.server.now_ms() - 1_500:
                transaction.put(DAG_PUT_OFF, key, row)
        return taken

    return [statement_replaced("dag_take_put_off", kept)]
