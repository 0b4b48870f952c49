"""The loop in virtual time: what is due is claimed, run and settled; then the clock jumps to the next time.

    settle what has ended → fire what is due → claim → run each handler to its end → jump

A shard, a worker and the result processor in one, without their loops and servers: it asks the store's own
functions, on tables in memory. An attempt's result is settled when its time is over, so what overlaps in
production overlaps here.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import trio
from psycopg import Connection
from trio.testing import MockClock

from shardwheel import ids
from shardwheel.errors import UsageError
from shardwheel.execution import FIRST_ENDING, FIRST_PAGES, WAITING_STATES, Claimant, Claimed
from shardwheel.handler import Registry
from shardwheel.job import WaitingExecution
from shardwheel.memory import ownership
from shardwheel.memory.connection import MemoryConnection
from shardwheel.memory.loop_store import loop_server
from shardwheel.memory.rows import EXECUTIONS, JOBS, WORK_ROWS, Execution, StoredJob
from shardwheel.missed import Policy, fates, fire_time, first_due_after
from shardwheel.ports import Message
from shardwheel.shard.messages import Writer
from shardwheel.store.claim import claim
from shardwheel.store.dag_inputs import load_inputs
from shardwheel.store.dag_sweep import sweep_runs
from shardwheel.store.expand import expand_work
from shardwheel.store.held import sweep_held
from shardwheel.store.job_row import JobRow
from shardwheel.store.settle import settle
from shardwheel.store.sweep import sweep_completed
from shardwheel.testing.attempts import WORKER, Bench, MemoryDesk
from shardwheel.times import END_MS
from shardwheel.topics import job_topic
from shardwheel.wire import Fire, Result, decode_fire

P = ParamSpec("P")
T = TypeVar("T")
ALL = range(ownership.PARTITIONS)
# How soon what is held by a limit of time is looked at again.
LOOK_AGAIN_MS = 1_000
_BY_TIME = ("rate_limit", "breaker_open")


class Next(NamedTuple):
    """When a job fires next."""

    fire_ms: int
    scheduled_ms: int
    schedule_no: int


class Letter(NamedTuple):
    """What was done about a dead letter."""

    state: str = "open"
    redriven_as: bytes | None = None


class Engine:
    def __init__(self, registry: Registry, known: Mapping[str, str], start_ms: int, seed: int) -> None:
        self.now_ms = start_ms
        self.server = loop_server(seed=seed, clock_ms=lambda: float(self.now_ms))
        self.desk = MemoryDesk(lambda execution_id: self.transact(load_inputs, execution_id))
        # By the execution that each is of.
        self.letters: dict[bytes, Letter] = {}
        self.results: list[tuple[Claimed, Result]] = []
        self._bench = Bench(registry, self.desk, known)
        self._registry = registry
        self._random = random.Random(seed)
        self._writer = Writer(1)
        self._next: dict[bytes, Next] = {}
        self._waiting: dict[bytes, Execution] = {}
        self._held: dict[bytes, Execution] = {}
        self._running: list[tuple[int, int, Result]] = []
        self._has_work = self._is_at_it = False

    # --- the tables ----------------------------------------------------------------------------------

    def transact(
        self, work: Callable[Concatenate[Connection[Any], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function of `store/` in a transaction of its own."""
        transaction = self.server.begin()
        token = ids.chance.set(self._random.randbytes)
        try:
            done = work(cast(Connection[Any], MemoryConnection(transaction)), *args, **kwargs)
            written = transaction.written()
            transaction.commit()
        finally:
            transaction.rollback()
            ids.chance.reset(token)
        self._take_note(written)
        return done

    def _take_note(self, written: Mapping[str, Mapping[Any, Any]]) -> None:
        for job_id, stored in written.get(JOBS, {}).items():
            self._reschedule(job_id, stored)
        for execution_id, row in written.get(EXECUTIONS, {}).items():
            for rows, states in ((self._waiting, WAITING_STATES), (self._held, ("held",))):
                rows.pop(execution_id, None)
                if row.state in states:
                    rows[execution_id] = row
        self._has_work = self._has_work or WORK_ROWS in written

    def _reschedule(self, job_id: bytes, stored: StoredJob) -> None:
        job = stored.row
        known = self._next.get(job_id)
        if job.state != "active" or job.kind == "task":
            self._next.pop(job_id, None)
        elif known is None or known.schedule_no != job.schedule_no:
            self._plan(job, job.effective_from_ms - 1)

    def _plan(self, job: JobRow, after_ms: int) -> None:
        timing = job.timing
        scheduled_ms = timing.next_after(after_ms)
        if scheduled_ms is None:
            self._next.pop(job.job_id, None)
            return
        fire_ms = fire_time(timing.schedule, job.job_id, scheduled_ms, timing.anchor_ms, job.jitter_ms)
        self._next[job.job_id] = Next(fire_ms, scheduled_ms, job.schedule_no)

    # --- time ----------------------------------------------------------------------------------------

    def run_until(self, until_ms: int) -> None:
        """Let time pass up to here, and everything happen that is due by then."""
        if self._is_at_it:
            raise UsageError("the clock moves already: a handler can't move it, nor wait for another's run")
        self._is_at_it = True
        try:
            trio.run(self._run_until, until_ms, clock=MockClock(autojump_threshold=0))
        finally:
            self._is_at_it = False
        self.now_ms = until_ms
        self._end_jobs()

    async def _run_until(self, until_ms: int) -> None:
        self._release()
        while (due_ms := self._next_due_ms()) <= until_ms:
            self.now_ms = max(self.now_ms, int(due_ms))
            await self._step()

    def _next_due_ms(self) -> float:
        by_time = any(row.reason in _BY_TIME for row in self._held.values())
        return min(
            min((one.fire_ms for one in self._next.values()), default=math.inf),
            min((math.ceil(row.due_ms) for row in self._waiting.values()), default=math.inf),
            self._running[0][0] if self._running else math.inf,
            self.now_ms if self._has_work else math.inf,
            self.now_ms + LOOK_AGAIN_MS if by_time else math.inf,
        )

    async def _step(self) -> None:
        while self._running and self._running[0][0] <= self.now_ms:
            self.transact(settle, [heapq.heappop(self._running)[-1]])
        if self._has_work:
            self._has_work = self.transact(expand_work, ALL, 1_000) > 0
        for pool, fires in self._due().items():
            token = self._random.randbytes(16)
            claimant = Claimant(WORKER, pool, self._registry.tasks, token)
            for claimed in self.transact(claim, fires, claimant).claimed:
                await self._run(claimed)
        self._release()

    def _release(self) -> None:
        """Let go on what is held for no reason any more."""
        if self._held:
            self.transact(sweep_held, ALL, FIRST_PAGES)
            self.transact(sweep_runs, ALL, bytes(16))

    async def _run(self, claimed: Claimed) -> None:
        result = await self._bench.run(claimed, self.now_ms)
        self.results.append((claimed, result))
        heapq.heappush(self._running, (result.ended_ms, len(self.results), result))

    # --- what is due ---------------------------------------------------------------------------------

    def _due(self) -> dict[str, list[tuple[Fire, int]]]:
        """Messages with their priority, by pool, each job's and each waiting execution's once."""
        due: dict[str, list[tuple[Fire, int]]] = {}
        for job_id in [job_id for job_id, one in self._next.items() if one.fire_ms <= self.now_ms]:
            job: JobRow = self.server.tables[JOBS][job_id].row
            for message in self._fires(job, self._next[job_id].scheduled_ms):
                due.setdefault(job.pool, []).append((decode_fire(message.value), job.priority))
        for row in [row for row in self._waiting.values() if row.due_ms <= self.now_ms]:
            job = self.server.tables[JOBS][row.job_id].row
            message = self._writer.waiting(_entry(row, job))
            due.setdefault(job.pool, []).append((decode_fire(message.value), job.priority))
        return due

    def _fires(self, job: JobRow, scheduled_ms: int) -> Iterator[Message]:
        """Its times up to now, by its policy for those that were missed."""
        timing, topic = job.timing, job_topic(job.pool, job.priority)
        head = (job.job_id, job.partition, topic, job.schedule_no)
        policy = Policy(job.misfire, job.misfire_grace_ms, job.catchup_window_ms)
        whose = (timing, job.job_id, job.jitter_ms)
        until_ms = first_due_after(*whose, self.now_ms, scheduled_ms, END_MS)
        self._plan(job, until_ms - 1)
        for span in fates(*whose, policy, scheduled_ms, until_ms, self.now_ms):
            yield from self._writer.span(*head, timing, job.jitter_ms, span)

    def _end_jobs(self) -> None:
        """Jobs whose last time has passed are completed: everything up to now has met the claim."""
        states = self.server.tables[ownership.TABLE]
        for partition, state in states.items():
            states[partition] = state._replace(floor_ms=self.now_ms, floor_xid=self.server.next_xid)
        self.transact(sweep_completed, ALL, FIRST_ENDING)


def _entry(row: Execution, job: JobRow) -> WaitingExecution:
    times = (row.attempt, math.ceil(row.due_ms), row.scheduled_ms)
    return WaitingExecution(row.execution_id, row.job_id, row.partition, *times, job.pool, job.priority, 0)
