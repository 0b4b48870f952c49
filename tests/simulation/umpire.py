"""The umpire: what must hold of limits, breakers, slots and budgets, at every commit and not only at the end.

It looks at the tables as they are committed, and at three statements while they decide: what a claim or a
settling saw may have changed by the time it commits. It counts for itself; the only thing that it takes from
the code is what people said a task type may do. Like the watcher it raises nothing in a commit, which would
only crash a simulated process: what it saw is raised by whoever runs the simulation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from shardwheel.ids import text_of
from shardwheel.limits import Tally, TaskName, is_budget_spent
from shardwheel.memory import dag_rows, hold_rows, rows
from shardwheel.memory.connection import STATEMENTS, Given, Statement
from shardwheel.memory.hold_rows import Breaker, LimitedType
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.rows import UNFINISHED, Execution
from shardwheel.memory.transaction import Transaction
from tests.simulation.checker import ViolationError
from tests.simulation.dag_runs import Written
from tests.simulation.dag_umpire import DagUmpire

Run = tuple[bytes, int]


class Rate(NamedTuple):
    """One limit, as it was set on one line of PostgreSQL's history: a fail-over forgets what it lost."""

    timeline: int
    name: TaskName
    per_s: float
    burst: int
    changes: int


class Umpire:
    def __init__(self, server: MemoryPostgres) -> None:
        self._server = server
        # By task type: what ran when its limit was changed last. That may run on, whatever the limit is now.
        self._before: dict[TaskName, set[Run]] = defaultdict(set)
        self._started: dict[Rate, list[float]] = defaultdict(list)
        self._changes = 0
        self.dags = DagUmpire(server)
        self.seen = self.dags.seen

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the block runs, it sees the statements that decide."""
        with ExitStack() as stack:
            looks = {
                "claim": self._of_claim,
                "settle_lock": self._of_settling,
                "judge_breakers": self._of_judging,
            }
            for name, look in looks.items():
                stack.enter_context(patch.dict(STATEMENTS, {name: look(STATEMENTS[name])}))
            yield

    def committed(self, old: Written, new: Written) -> None:
        """Is told of every commit: the rows that it wrote, as they were and as they are."""
        self.dags.committed(old, new)
        for name, limits in new.get(hold_rows.TASK_TYPES, {}).items():
            self._limit(name, old[hold_rows.TASK_TYPES][name], limits)
        for key, row in new.get(rows.EXECUTIONS, {}).items():
            self._check_slots(row)
            before = old[rows.EXECUTIONS][key]
            if row.state == "running" and (before is None or before.state != "running"):
                self._check_start(before, row)

    def _limit(self, name: TaskName, old: LimitedType | None, new: LimitedType) -> None:
        if old is None or old.max_running != new.max_running:
            self._before[name] |= {(row.execution_id, row.attempt) for row in self._running(name)}
        if old is None or (old.rate_per_s, old.burst) != (new.rate_per_s, new.burst):
            self._changes += 1

    # --- at a commit ----------------------------------------------------------------------------------

    def _check_slots(self, row: Execution) -> None:
        """Who does not run has no slot of its task; who is over has none of its job."""
        table = self._server.tables
        if row.state != "running" and any(
            slot.execution_id == row.execution_id for slot in table[hold_rows.TASK_SLOTS].values()
        ):
            self._say(row.execution_id, f"is {row.state} and has a slot of its task")
        slot = table[hold_rows.OVERLAP_SLOTS].get(row.job_id)
        if row.state not in UNFINISHED and slot is not None and slot.execution_id == row.execution_id:
            self._say(row.execution_id, f"is {row.state} and has its job's slot")

    def _check_start(self, before: Execution | None, row: Execution) -> None:
        if self._runs_without_worker(row):
            self._check_overlap(row)
            return
        is_held = before is not None and before.state == "held" and before.reason != "handler_unknown"
        if row.claim_token is None or is_held:
            self._say(row.execution_id, "runs without having been claimed")
        name = self._name(row)
        limits: LimitedType = self._server.tables[hold_rows.TASK_TYPES].get(name) or LimitedType(name)
        if limits.paused:
            self._say(row.execution_id, "was claimed: its task is paused")
        self._check_overlap(row)
        self._check_concurrency(row, limits)
        self._check_rate(row, limits)
        self._check_probes(row)

    def _runs_without_worker(self, row: Execution) -> bool:
        """A DAG's own execution, or a fan-out's."""
        is_dag = self._server.tables[rows.JOBS][row.job_id].row.kind == "dag"
        is_fan = (row.dag_run_id, row.job_id) in self._server.tables[dag_rows.DAG_FANS]
        return is_dag or (is_fan and row.item_no is None)

    def _check_overlap(self, row: Execution) -> None:
        """Once begun, nothing else of the job begins until it is over, however often it is tried."""
        if self._server.tables[rows.JOBS][row.job_id].row.overlap == "allow":
            return
        for other in self._server.tables[rows.EXECUTIONS].values():
            begun = other.state in UNFINISHED and other.started_ms is not None
            is_other = other.job_id == row.job_id and other.execution_id != row.execution_id
            if begun and is_other:
                self._say(
                    row.execution_id, f"was claimed while {text_of(other.execution_id)} is {other.state}"
                )

    def _check_concurrency(self, row: Execution, limits: LimitedType) -> None:
        if limits.max_running is None:
            return
        before = self._before[limits.name]
        running = [one for one in self._running(limits.name) if (one.execution_id, one.attempt) not in before]
        if len(running) > limits.max_running:
            self._say(row.execution_id, f"is one of {len(running)} where {limits.max_running} may run")

    def _check_rate(self, row: Execution, limits: LimitedType) -> None:
        if limits.rate_per_s is None or limits.burst is None or row.started_ms is None:
            return
        timeline = self._server.identity.timeline
        rate = Rate(timeline, limits.name, limits.rate_per_s, limits.burst, self._changes)
        started = self._started[rate]
        started.append(row.started_ms)
        started.sort()
        for place, since_ms in enumerate(started):
            allowed = rate.burst + rate.per_s * (started[-1] - since_ms) / 1000
            if len(started) - place > allowed + 1e-6:
                self._say(row.execution_id, f"is one of {len(started) - place} where {allowed:.2f} may start")

    def _check_probes(self, row: Execution) -> None:
        breaker: Breaker | None = self._server.tables[hold_rows.TASK_BREAKERS].get(self._name(row))
        if breaker is None or breaker.open_until_ms is None:
            return
        since_ms = breaker.open_until_ms
        probes = [one for one in self._running(breaker.name) if (one.started_ms or 0) > since_ms]
        if len(probes) > 1:
            self._say(row.execution_id, f"is one of {len(probes)} probes")

    def _running(self, name: TaskName) -> list[Execution]:
        return [
            row
            for row in self._server.tables[rows.EXECUTIONS].values()
            if row.state == "running" and row.claim_token is not None and self._name(row) == name
        ]

    def _name(self, row: Execution) -> TaskName:
        return TaskName(row.tenant_id, self._server.tables[rows.JOBS][row.job_id].row.task)

    # --- at a statement -------------------------------------------------------------------------------

    def _of_claim(self, claim: Statement) -> Statement:
        """Nothing of a task type is claimed while its breaker is open."""

        def looked_at(transaction: Transaction, given: Given) -> list[Any]:
            now_ms = transaction.server.now_ms()
            breakers: list[Breaker] = [row for _, row in transaction.rows(hold_rows.TASK_BREAKERS)]
            is_open = {row.name for row in breakers if (row.open_until_ms or 0) > now_ms}
            answer = claim(transaction, given)
            for state, _, execution_id, _, _, tenant_id, task, *_ in answer:
                if state == "running" and TaskName(tenant_id, task) in is_open:
                    self._say(execution_id, f"was claimed: the breaker of {task} is open")
            return answer

        return looked_at

    def _of_settling(self, settle_lock: Statement) -> Statement:
        """Whoever settles a failure is told that its tenant has no retries left."""

        def looked_at(transaction: Transaction, given: Given) -> list[Any]:
            since_ms = transaction.server.now_ms() - given["window"].total_seconds() * 1000
            counted: dict[str, Tally] = defaultdict(Tally)
            for _, span in transaction.rows(hold_rows.TASK_TALLIES):
                if span.since_ms > since_ms:
                    counted[span.name.tenant_id] = counted[span.name.tenant_id].plus(span.tally)
            answer = settle_lock(transaction, given)
            for execution_id, *_, firsts, retries in answer:
                right = counted[transaction.get(rows.EXECUTIONS, execution_id).tenant_id]
                if is_budget_spent(right.firsts, right.retries) and not is_budget_spent(firsts, retries):
                    self._say(execution_id, "is tried again on a spent budget")
            return answer

        return looked_at

    def _of_judging(self, judge: Statement) -> Statement:
        """On probation, runs that ended well close a breaker, and others open it again."""

        def looked_at(transaction: Transaction, given: Given) -> list[Any]:
            now_ms = transaction.server.now_ms()
            columns = (given["tenants"], given["tasks"], given["runs"], given["failures"])
            told = {TaskName(*name): failed for *name, runs, failed in zip(*columns, strict=True) if runs}
            breakers: list[Breaker] = [row for _, row in transaction.rows(hold_rows.TASK_BREAKERS)]
            judged = [
                row.name for row in breakers if row.name in told and 0 < (row.open_until_ms or 0) <= now_ms
            ]
            answer = judge(transaction, given)
            for name in judged:
                open_until_ms = transaction.get(hold_rows.TASK_BREAKERS, name).open_until_ms
                if (open_until_ms is not None) != bool(told[name]):
                    self.seen.append(ViolationError(f"{told[name]} runs of {name} failed: {open_until_ms}"))
            return answer

        return looked_at

    def _say(self, execution_id: bytes, what: str) -> None:
        self.seen.append(ViolationError(f"execution {text_of(execution_id)} {what}"))
