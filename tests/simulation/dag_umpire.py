"""The umpire of DAGs: rule 6 at every commit, of every run that the commit touched.

A child begins only when all its parents are satisfied; a run that goes nowhere begins nobody; figures and
counters say what the rows say, and are never negative; a run that is not over has something under way, or it
would be forgotten. None of this may wait for the sweep: each commit leaves the run whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shardwheel.execution import WAITING_STATES
from shardwheel.ids import TASK, execution_id, text_of
from shardwheel.memory import rows
from shardwheel.memory.dag_rows import DAG_COUNTERS, DAG_FANS, DAG_PUT_OFF, DAG_RUNS, DAG_VERSIONS, DagRun
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.rows import Execution
from tests.simulation.checker import ViolationError
from tests.simulation.dag_runs import (
    DIED,
    DONE,
    FAILED,
    SATISFIED,
    SeenRun,
    Written,
    is_over,
    seen_run,
    word_of,
)
from tests.simulation.notes import HANDS


class DagUmpire:
    def __init__(self, server: MemoryPostgres) -> None:
        self._server = server
        self.seen: list[ViolationError] = []

    def committed(self, old: Written, new: Written) -> None:
        for run_id, run in new.get(DAG_RUNS, {}).items():
            self._check_version(old[DAG_RUNS][run_id], run)
        runs = {run_id: seen_run(self._server.tables, run_id) for run_id in sorted(_touched(new))}
        for key, row in new.get(rows.EXECUTIONS, {}).items():
            before = old[rows.EXECUTIONS][key]
            if row.dag_run_id is not None:
                self._check_change(runs[row.dag_run_id], before, row)
        for run_id, seen in runs.items():
            self._look(seen)
            self._check_deaths(seen, _newly_over(run_id, old, new))

    def may_reopen(self, old: Written, new: Written, row: Execution) -> bool:
        """Whether what was over may go on: somebody's hand on its run says so, or a round of policy retry."""
        run_id = row.dag_run_id or row.execution_id
        before = old.get(DAG_RUNS, {}).get(run_id)
        is_round = before is not None and new[DAG_RUNS][run_id].rounds > before.rounds
        return is_round or any(note.run_id == run_id for note in new.get(HANDS, {}))

    def _look(self, seen: SeenRun) -> None:
        self._check_figures(seen)
        self._check_counters(seen)
        self._check_fans(seen)
        self._check_going(seen)

    def _check_change(self, seen: SeenRun, old: Execution | None, row: Execution) -> None:
        run = seen.run
        is_stopped = run.state != "running" or run.reason == "failed_fast"
        begins = row.state in rows.UNFINISHED and (old is None or old.state not in rows.UNFINISHED)
        goes_on = old is not None and old.state == "running" and row.state in WAITING_STATES
        if begins:
            self._check_begin(seen, row)
        if is_stopped and (begins or goes_on):
            self._say(run, f"is {run.state} {run.reason}, and {text_of(row.execution_id)} is {row.state}")

    def _check_deaths(self, seen: SeenRun, over: Iterable[bytes]) -> None:
        """Under fail_fast nothing goes on from the moment when a run learns that a task of it died."""
        run = seen.run
        died = [seen.tasks[task_id].task_key for task_id in over if seen.words.get(task_id) in DIED]
        if died and seen.policy == "fail_fast" and run.state == "running" and run.reason != "failed_fast":
            self._say(run, f"goes on, though {died} died")

    def _check_version(self, old: DagRun | None, run: DagRun) -> None:
        """A run begins with its DAG's newest version, once, with its fire; and keeps it."""
        if old is not None:
            if (old.version, old.dag_id) != (run.version, run.dag_id):
                self._say(run, "has another version now")
            return
        versions = self._server.tables[DAG_VERSIONS].values()
        newest = max(one.version for one in versions if one.dag_id == run.dag_id)
        fire = self._server.tables[rows.EXECUTIONS].get(run.dag_run_id)
        if run.version != newest:
            self._say(run, f"began with version {run.version}: {newest} is the newest")
        if fire is None or fire.job_id != run.dag_id:
            self._say(run, "is a run of no fire")

    def _check_begin(self, seen: SeenRun, row: Execution) -> None:
        run, task_id = seen.run, row.job_id
        if task_id not in seen.tasks:
            self._say(run, f"of version {run.version} begins a task that is not in it")
            return
        name = seen.tasks[task_id].task_key
        cause = run.dag_run_id + (b"" if row.item_no is None else row.item_no.to_bytes(4, "big"))
        if row.execution_id != execution_id(TASK, task_id, run.partition, run.scheduled_ms, cause):
            self._say(run, f"begins a second execution of {name}")
        if row.item_no is not None and is_over(seen.words[task_id]):
            self._say(run, f"begins item {row.item_no} of {name}, which is {seen.words[task_id]}")
        words = {seen.tasks[parent].task_key: seen.words[parent] for parent in seen.parents[task_id]}
        if not SATISFIED.issuperset(words.values()):
            self._say(run, f"begins {name}, and its parents are {words}")

    def _check_figures(self, seen: SeenRun) -> None:
        run, words = seen.run, seen.words.values()
        finished = [word for word in words if is_over(word)]
        done, died = sum(word in DONE for word in finished), sum(word in DIED for word in finished)
        right = (len(words) - len(finished), done, died, len(finished) - done - died)
        if (run.unfinished, run.succeeded, run.failed, run.skipped) != right:
            self._say(run, f"says {run}, and its tasks are {sorted(words)}")

    def _check_counters(self, seen: SeenRun) -> None:
        """Of those that have yet to begin. (Nobody asks the counter of one that somebody ended by hand: it
        may go down twice, when a parent of it runs again.)"""
        for task_id, word in seen.words.items():
            if word == "":
                self._check_readiness(seen, task_id)

    def _check_readiness(self, seen: SeenRun, task_id: bytes) -> None:
        """Who has yet to begin waits for somebody, and its counter knows for how many."""
        words = [seen.words[parent] for parent in seen.parents[task_id]]
        pending = sum(not is_over(word) for word in words)
        name, counter = seen.tasks[task_id].task_key, seen.counters.get(task_id)
        counted = len(words) if counter is None else counter.pending
        if counted != pending:
            self._say(seen.run, f"counts {counted} open parents of {name}: they are {words}")
        if not pending:
            self._say(seen.run, f"has forgotten {name}: its parents are {words}")
        if counter is not None and counter.failed != sum(word in FAILED for word in words):
            self._say(seen.run, f"counts {counter.failed} failed parents of {name}: they are {words}")

    def _check_fans(self, seen: SeenRun) -> None:
        for task_id, fan in seen.fans.items():
            row, items = seen.rows.get(task_id), seen.items.get(task_id, [])
            words = [seen.word(task_id, item) for item in items]
            is_open, failed = sum(not is_over(word) for word in words), sum(word in DIED for word in words)
            skipped = len(items) - is_open - failed - sum(word in SATISFIED for word in words)
            right = (is_open, failed, skipped)
            if (fan.open_items, fan.failed_items, fan.skipped_items) != right:
                self._say(seen.run, f"has items that are {sorted(words)}: {fan}")
            if row is not None and row.state == "running" and (len(items) != fan.items or not is_open):
                self._say(seen.run, f"has {is_open} of {len(items)} items open: {fan}")

    def _check_going(self, seen: SeenRun) -> None:
        """A run that is not over goes on by itself; one that is over has ended its fire."""
        run, fire = seen.run, seen.fire
        if run.unfinished and not seen.under_way:
            self._say(run, f"is stuck: {sorted(seen.words.values())}")
        is_ended = fire is not None and fire.state != "running"
        if run.state == "cancelled" and run.unfinished:
            right = not is_ended
        else:
            right = is_ended == (run.state != "running") == (not run.unfinished)
        if not right:
            self._say(run, f"with {run.unfinished} tasks to go is {run.state}, its fire {fire}")

    def _say(self, run: DagRun, what: str) -> None:
        self.seen.append(ViolationError(f"DAG run {text_of(run.dag_run_id)} {what}"))


def _touched(new: Written) -> set[bytes]:
    runs = {row.dag_run_id for row in new.get(rows.EXECUTIONS, {}).values()} - {None}
    counted = {key[0] for name in (DAG_COUNTERS, DAG_FANS, DAG_PUT_OFF) for key in new.get(name, {})}
    return runs | counted | set(new.get(DAG_RUNS, {}))


def _is_over(row: Execution | None) -> bool:
    return row is not None and is_over(word_of(row))


def _newly_over(run_id: bytes, old: Written, new: Written) -> Iterator[bytes]:
    """Tasks of which the run may have learned with this commit that they are over."""
    for key, row in new.get(rows.EXECUTIONS, {}).items():
        if (row.dag_run_id, row.item_no) == (run_id, None) and not _is_over(old[rows.EXECUTIONS][key]):
            yield row.job_id
    for key, put_off in new.get(DAG_PUT_OFF, {}).items():
        if (key[0], key[2], put_off) == (run_id, -1, None):
            yield key[1]
