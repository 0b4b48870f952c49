"""Resolving: a task of a DAG's run is over, whoever ended it, and its run goes on, or ends.

The one routine for all: results, skips at the claim, expiry, cancelling, the sweep, and hands. It takes the
children's counters down, queues those that are ready, records those that can't run, level by level until
nothing more follows, and ends the run when nothing of it is unfinished. All in the transaction of whoever
ended the task: a child is queued if and only if its last parent is over, and the queued row is the outbox.

    a ends → counters of b, c: 2 → 1, 1 → 0 → c is ready: queued, or recorded as upstream_failed → c ends → …

The run's row is locked first, so all that ends in one run ends one after the other. That is what makes
joins safe: of two parents that end at the same moment, the second one finds the first one's count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.dag_run import (
    FAILED_FAST,
    RUN_FAILED,
    UPSTREAM_FAILED,
    Ended,
    Readiness,
    Verdict,
    cascade,
    descendants,
    outcome_of,
    recount,
    totals_of,
)
from shardwheel.execution import Resolved, RunEnd
from shardwheel.retry import Backoff, wait_ms
from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuid, Uuids
from shardwheel.store.dag_runs import Run, edges_of, lock_runs, store_runs, tasks_of
from shardwheel.store.dag_slots import take_slots
from shardwheel.store.dag_tasks import NewTask, add_tasks, close_fans, end_items, fan_out
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.planning import plan_anew
from shardwheel.store.sql import is_few, sql

# So many levels of what follows are told one by one.
DEEP = 8
_decode_backoff = msgspec.json.Decoder(Backoff).decode
# What the DAG's own execution becomes when its run ends.
_FIRE_ENDS = {
    "succeeded": ("succeeded", ""),
    "partial": ("succeeded", "partial"),
    "failed": ("dead", RUN_FAILED),
    "cancelled": ("cancelled", "cancelled"),
}


class Child(NamedTuple):
    """A task all of whose parents are over."""

    run_id: bytes
    task_id: bytes
    fan_out: bool
    readiness: Readiness = Readiness()


def resolve(
    conn: Connection[Any], ended: Sequence[Ended], locked: Mapping[bytes, Run] | None = None
) -> Resolved:
    """Let everything follow from tasks, or items, that this transaction has ended. `locked`: runs that it has
    locked, and not changed since."""
    if not ended:
        return Resolved()
    known = locked or {}
    run_ids = {one.run_id for one in ended}
    missing = run_ids - known.keys()
    runs = {run_id: run for run_id, run in known.items() if run_id in run_ids}
    resolution = Resolution(conn, runs | (lock_runs(conn, missing) if missing else {}))
    resolution.follow(ended)
    return resolution.close()


class Resolution:
    """One transaction's work on runs that it has locked. `close` is its end: it stores the runs."""

    def __init__(self, conn: Connection[Any], runs: dict[bytes, Run]) -> None:
        self._conn = conn
        self._runs = runs
        self._queued: set[int] = set()
        self._ends: list[RunEnd] = []
        self._failed_fast: set[bytes] = set()
        self._reopened: set[bytes] = set()
        self._ended_before = {run.run_id for run in runs.values() if run.is_over}

    def follow(self, ended: Iterable[Ended]) -> None:
        """Level by level: what is over lets children begin, or ends them too. What goes deep is counted anew
        from the rows: a chain of a thousand must not cost a thousand times two statements."""
        level, levels = list(ended), 0
        while level:
            levels += 1
            level = self._counted_anew(level) if levels > DEEP else self._followed(level)

    def _followed(self, level: Sequence[Ended]) -> list[Ended]:
        items = [one for one in level if one.item_no is not None]
        tasks = [one for one in level if one.item_no is None]
        tasks += end_items(self._conn, self._runs, items)
        for task in tasks:
            run = self._runs[task.run_id]
            run.count(task.state)
            self._note_failure(run, task.state)
        return self.begin(self._count_down(tasks))

    def _counted_anew(self, level: Sequence[Ended]) -> list[Ended]:
        for task in level:
            self._note_failure(self._runs[task.run_id], task.state)
        run_ids = sorted({task.run_id for task in level})
        return [one for run_id in run_ids for one in self._recounted(self._runs[run_id])]

    def _note_failure(self, run: Run, state: str) -> None:
        if state in ("dead", "cancelled") and run.policy == "fail_fast" and run.goes_on:
            run.reason = FAILED_FAST  # Nothing more begins from here on; `close` sees to the rest.
            self._failed_fast.add(run.run_id)

    def begin(self, children: Iterable[Child]) -> list[Ended]:
        """Queue what is ready and can run, record what can't; what is over by that."""
        wanted: list[NewTask] = []
        for child in children:
            run = self._runs[child.run_id]
            if not run.goes_on:
                continue
            skip_as = child.readiness.skip_as
            if skip_as is not None:
                wanted.append(NewTask(run, child.task_id, "skipped", skip_as))
            elif child.fan_out:
                wanted += fan_out(self._conn, run, child.task_id)
            else:
                wanted.append(NewTask(run, child.task_id, "queued"))
        return self._add(wanted)

    def stop(self, run: Run, state: str, reason: str) -> None:
        """Nothing more of the run begins: what waits ends as `state`, what runs is asked to stop, and what
        waits for its parents is recorded: what follows from a failure as that, the rest with the reason."""
        tasks = tasks_of(self._conn, run)
        failed = [one.task_id for one in tasks.values() if one.state in ("dead", "cancelled")]
        doomed = descendants(failed, edges_of(self._conn, run)) if failed else set()
        pending = [one.task_id for one in tasks.values() if one.is_pending]
        recorded = self._add(
            [
                NewTask(run, task_id, "skipped", UPSTREAM_FAILED if task_id in doomed else reason)
                for task_id in pending
            ]
        )
        for one in recorded:
            run.count(one.state)
        self.follow(self._stop(run, None, state, reason))

    def stop_items(self, run: Run, task_id: bytes) -> None:
        """Items of a fan-out that somebody has ended by hand: none of them is needed any more."""
        end_items(self._conn, self._runs, self._stop(run, task_id, "cancelled", "not_needed"))

    def cancel_items(self, run_id: bytes, task_id: bytes) -> None:
        """A fan-out is cancelled: its items are. (A task without items has none that wait.)"""
        self.follow(self._stop(self._runs[run_id], task_id, "cancelled", "cancelled"))

    def _stop(self, run: Run, task_id: bytes | None, state: str, reason: str) -> list[Ended]:
        given = {"run_id": Uuid(run.run_id), "task_id": None if task_id is None else Uuid(task_id)}
        words = {"state": state, "reason": reason}
        stopped = self._conn.execute(sql("dag_stop"), given | words, binary=True).fetchall()
        self._conn.execute(sql("dag_ask_to_stop"), given)
        return [Ended._make(row) for row in stopped]

    def mend(self) -> None:
        """Make runs of which nothing is under way true from their rows."""
        for run in self._runs.values():
            close_fans(self._conn, run)
            self.recount(run)

    def recount(self, run: Run) -> None:
        """Make the run's figures and counters true from its tasks, and let begin what is ready."""
        self.follow(self._recounted(run))

    def _recounted(self, run: Run) -> list[Ended]:
        """What is over by that."""
        tasks, edges = tasks_of(self._conn, run), edges_of(self._conn, run)
        run.take_totals(totals_of(tasks.values()))
        counted, skipped = cascade(tasks, edges) if run.goes_on else (recount(tasks, edges), {})
        self._set_counters(run, counted)
        recorded = self._add(
            [NewTask(run, task_id, "skipped", reason) for task_id, reason in skipped.items()]
        )
        for one in recorded:
            run.count(one.state)
        ready = [
            Child(run.run_id, task_id, tasks[task_id].fan_out, readiness)
            for task_id, readiness in counted.items()
            if readiness.pending == 0 and task_id not in skipped
        ]
        return self.begin(ready)

    def requeue(
        self,
        run: Run,
        actor: str,
        wait: int = 0,
        task_ids: Sequence[bytes] | None = None,
        execution_ids: Sequence[bytes] = (),
        by_hand: bool = True,
    ) -> bool:
        """Let failed tasks run again (all, or these; of fan-outs all failed items, or these executions), and
        what was skipped for them wait again; whether there was any. What somebody has cancelled runs again
        by hand only."""
        given = {
            "run_id": Uuid(run.run_id),
            "dag_id": Uuid(run.dag_id),
            "version": run.version,
            "all": task_ids is None,
            "by_hand": by_hand,
            "task_ids": Uuids(task_ids or []),
            "execution_ids": Uuids(execution_ids),
            "wait_ms": wait,
            "actor": actor,
        }
        plan_anew(self._conn)
        rows = self._conn.execute(sql("dag_requeue"), given, binary=True, prepare=False).fetchall()
        if rows or by_hand:
            self._queued.add(run.partition)
            self.reopen(run)
        return bool(rows)

    def reopen(self, run: Run) -> None:
        """The run goes on from how its tasks stand now, though it may have ended."""
        run.state, run.reason = "running", ""
        self._failed_fast.discard(run.run_id)
        if run.run_id in self._ended_before:
            self._ended_before.remove(run.run_id)
            self._reopened.add(run.run_id)
        self._conn.execute(sql("dag_reopen"), {"run_id": Uuid(run.run_id)})
        self.recount(run)

    def close(self) -> Resolved:
        """What a policy asks for, the ends of runs, and all of it stored: but for runs that were over before,
        and stay so. Refused if a run goes on after its end that would overlap with another: the caller's
        transaction is to be rolled back."""
        changed = [run for run in self._runs.values() if run.run_id not in self._ended_before]
        for run in changed:
            if run.run_id in self._failed_fast:
                self.stop(run, "skipped", RUN_FAILED)
            if not run.unfinished:
                self._end(run)
        if changed:
            store_runs(self._conn, changed)
        going_on = [run_id for run_id in self._reopened if self._runs[run_id].state == "running"]
        if going_on:
            take_slots(self._conn, [run_id for run_id in going_on if self._runs[run_id].of_dag])
        return Resolved(frozenset(self._queued), tuple(self._ends))

    def _end(self, run: Run) -> None:
        while run.state == "running" and run.has_round:
            wait = wait_ms(_decode_backoff(run.backoff), run.rounds + 1, run.run_id)
            if not self.requeue(run, "policy", wait, by_hand=False):
                break
            run.rounds += 1
            if run.unfinished:
                return
            # What was tried again was over at once: a fan-out of what is no list.
        if run.state == "running":
            run.state, run.reason = outcome_of(run.policy, run.totals), ""
        if run.of_dag:
            state, reason = _FIRE_ENDS[run.state]
            ids = Uuids([run.run_id])
            given = {"execution_ids": ids, "states": Texts([state]), "reasons": Texts([reason])}
            self._conn.execute(sql("dag_end_tasks"), given, binary=True)
        in_time = None if run.sla_ms is None else read_now_ms(self._conn) <= run.sla_ms
        self._ends.append(RunEnd(run.state, in_time))

    def _add(self, wanted: Sequence[NewTask]) -> list[Ended]:
        made = add_tasks(self._conn, wanted)
        self._queued.update(task.run.partition for task in made if task.state == "queued")
        return [task.ended for task in made if task.state not in ("queued", "running")]

    def _count_down(self, tasks: Sequence[Ended]) -> list[Child]:
        if not tasks:
            return []
        runs = [self._runs[task.run_id] for task in tasks]
        parameters = {
            "run_ids": Uuids([run.run_id for run in runs]),
            "dag_ids": Uuids([run.dag_id for run in runs]),
            "versions": Bigints([run.version for run in runs]),
            "task_ids": Uuids([task.task_id for task in tasks]),
            "failed": Booleans(task.verdict is Verdict.FAILED for task in tasks),
            "skipped": Booleans(task.verdict is Verdict.SKIPPED for task in tasks),
        }
        rows = self._conn.execute(
            sql("dag_count_down"), parameters, binary=True, prepare=is_few(len(tasks))
        ).fetchall()
        return [Child(run, task, fan_out, Readiness(*counts)) for run, task, fan_out, *counts in rows]

    def _set_counters(self, run: Run, counted: dict[bytes, Readiness]) -> None:
        parameters = {
            "run_id": Uuid(run.run_id),
            "child_ids": Uuids(list(counted)),
            "pending": Bigints([one.pending for one in counted.values()]),
            "failed": Bigints([one.failed for one in counted.values()]),
            "skipped": Bigints([one.skipped for one in counted.values()]),
        }
        self._conn.execute(sql("dag_set_counters"), parameters, prepare=is_few(len(counted)))
