"""One simulated run from one seed: the same every time, wherever it runs.

People and faults for a while; then everything is mended, time goes on until all is quiet, and the checker
looks at every (job, time). Chance comes from the seed alone, trio's own order of tasks included.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import chain
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import structlog
import trio
from trio.testing import MockClock

from shardwheel.handler import Fatal, Registry, Retryable
from shardwheel.memory import rows
from shardwheel.memory.dag_rows import DAG_RUNS, DagRun
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.transaction import Transaction
from shardwheel.partition import partition_of
from shardwheel.records import Plan, Seat
from tests.simulation.checker import (
    ViolationError,
    Watcher,
    check,
    check_fired,
    is_quiet,
    why_not_quiet,
)
from tests.simulation.dag_checker import check_runs
from tests.simulation.dag_runs import seen_run
from tests.simulation.faults import Chaos
from tests.simulation.notes import HANDS, NOTE_TABLES
from tests.simulation.people import People
from tests.simulation.tables import tables_of
from tests.simulation.umpire import Umpire
from tests.simulation.world import PARTITIONS, TASKS, World, has_dags, is_limited, lags, leaves

CHAOS_S = 35.0
QUIET_LIMIT_S = 400.0
# After the last fault every partition is fired by somebody within this time.
FIRED_WITHIN_S = 10.0
# Fewer partitions and looser rounds: what they cost a simulation buys it nothing.
_LIMITS: dict[str, Any] = {
    "coordinator.planning._NOBODY": Plan(0, (Seat(""),) * PARTITIONS),
    "coordinator.floor.PARTITIONS": PARTITIONS,
    "workers.worker.WAIT_S": 2.0,
    "results.processor.WAIT_S": 2.0,
    "clock.SAMPLES": 1,
}
# Where there are breakers and budgets, a few runs open or spend them, and a breaker looks again in time.
_TIGHT_LIMITS: dict[str, Any] = {
    "store.tallies.BREAKER_RUNS": 5,
    "store.tallies.BREAKER_OPEN_S": 6,
    "limits.RETRIES_ALWAYS": 6,
    "limits.RETRIES_PER_FIRST": 0.3,
}
# Tasks of DAGs fail as posted, for ever: that opens no breaker.
_DAG_LIMITS: dict[str, Any] = {"store.tallies.BREAKER_RUNS": 1_000_000}
_LAG_LIMITS: dict[str, Any] = {
    "results.lag.OPEN_ABOVE": 0,
    "results.lag.CLOSE_BELOW": 1,
    "results.lag.MEASURE_S": 0.25,
}


class Outcome(NamedTuple):
    """What a run came to: equal for equal seeds."""

    times: int
    claims: int
    ended_at_s: float
    last_xid: int
    dag_tasks: int


def simulate(seed: int) -> Outcome:
    """Run one seed; `ViolationError` if a rule was broken."""
    with _from_seed(seed):
        outcomes: list[Outcome] = []
        try:
            trio.run(_simulate, seed, outcomes, clock=MockClock(autojump_threshold=0))
        except BaseExceptionGroup as errors:
            raise leaves(errors)[0] from errors
        return outcomes[0]


async def _simulate(seed: int, outcomes: list[Outcome]) -> None:
    registry = Registry()
    world = World(seed, registry)
    world.postgres.tables |= {name: {} for name in NOTE_TABLES}
    watcher, umpire = Watcher(), Umpire(world.postgres)
    for task in TASKS:
        registry.add(task, _handler(world, watcher), "short", None)
    world.old_registry.add("work", _handler(world, watcher), "short", None)
    with _watching(world.postgres, watcher, umpire) as over, umpire.watching():
        async with trio.open_nursery() as nursery:
            over.append(nursery.cancel_scope)
            nursery.start_soon(world.supervise, "shard", world.shard)
            for role in ("second shard", "third shard")[: world.random.choice([0, 0, 1, 2])]:
                nursery.start_soon(world.supervise, role, world.shard)
            nursery.start_soon(world.supervise, "worker", world.worker)
            if world.random.random() < 0.4:
                nursery.start_soon(world.supervise, "second worker", world.worker)
            if world.limited and world.random.random() < 0.4:
                nursery.start_soon(world.supervise, "old worker", world.old_worker)
            nursery.start_soon(world.supervise, "results", world.results)
            await trio.sleep(world.random.uniform(0, 4))
            await _live(world)
            through_ms = int(world.postgres.now_ms())
            await _until_quiet(world, through_ms)
            nursery.cancel_scope.cancel()
    for violation in chain(watcher.seen, umpire.seen):
        raise violation
    times = check(tables_of(world.postgres), through_ms)
    tables: Any = world.postgres.tables
    tasks = check_runs([seen_run(tables, run_id) for run_id in tables[DAG_RUNS]], tables[HANDS].values())
    outcomes.append(Outcome(times, watcher.claims, trio.current_time(), world.postgres.next_xid, tasks))


async def _live(world: World) -> None:
    chaos, people = Chaos(world), People(world)
    until_s = trio.current_time() + CHAOS_S
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chaos.rage, until_s)
        nursery.start_soon(people.live, until_s)
    chaos.heal()
    if world.limited:
        await people.relent()


async def _until_quiet(world: World, through_ms: int) -> None:
    fired_by_s = trio.current_time() + FIRED_WITHIN_S
    with trio.move_on_after(QUIET_LIMIT_S):
        while not is_quiet(tables_of(world.postgres), through_ms):
            for ended in world.strange_ends:
                raise ViolationError(f"a process ended of {ended!r}") from ended
            if trio.current_time() > fired_by_s:
                check_fired(tables_of(world.postgres), through_ms)
            await trio.sleep(1)
        return
    raise ViolationError(why_not_quiet(tables_of(world.postgres), through_ms))


def _handler(world: World, watcher: Watcher) -> Any:
    async def work(ctx: Any, params: Any) -> list[int] | None:
        r = world.random
        watcher.begins(ctx.execution_id, ctx.attempt)
        if world.slow:
            await trio.sleep(r.uniform(2, 9))
        await trio.sleep(r.choice([0.0, 0.05, 0.3, r.uniform(0, 12) if r.random() < 0.2 else 0.1]))
        _do(params.get("deed"), ctx.attempt)
        chance = 1.0 if world.healed or "deed" in params else r.random()
        if chance < 0.05:
            raise Fatal("broken for good")
        if chance < 0.12:
            raise Retryable("later", after_s=1)
        if chance < 0.2:
            raise ValueError("broken")
        if ctx.task == "shaky" and world.broken and r.random() < 0.9:
            raise ValueError("what it needs is away")
        watcher.succeeds(ctx.execution_id, ctx.attempt)
        return list(range(params["items"])) if "items" in params else None

    return work


def _do(deed: str | None, attempt: int) -> None:
    """What a DAG's task is posted to do."""
    if deed == "fatal":
        raise Fatal("as posted")
    if deed == "fails" or (deed == "once" and attempt % 2):
        raise ValueError("as posted")


@contextmanager
def _watching(server: MemoryPostgres, watcher: Watcher, umpire: Umpire) -> Iterator[list[trio.CancelScope]]:
    """Look at every commit: the watcher before it is applied, the umpire afterwards. At the first that breaks
    a rule, what is in the scopes that are given back is over."""
    commit = Transaction.commit
    over: list[trio.CancelScope] = []

    def watched(transaction: Transaction) -> None:
        if transaction.ended.is_set():
            return commit(transaction)
        new = transaction._writes
        old = {name: {key: server.tables[name].get(key) for key in written} for name, written in new.items()}
        for key, row in new.get(rows.EXECUTIONS, {}).items():
            before, (state, wished) = old[rows.EXECUTIONS][key], _whose(server, row)
            reopens = umpire.dags.may_reopen(old, new, row)
            watcher.change(before, row, state, wished=wished, reopens=reopens)
        commit(transaction)
        umpire.committed(old, new)
        if watcher.seen or umpire.seen:
            for scope in over:
                scope.cancel()
        return None

    with patch.object(Transaction, "commit", watched):
        yield over


def _limits(seed: int) -> dict[str, Any]:
    every = ((is_limited, _TIGHT_LIMITS), (has_dags, _DAG_LIMITS), (lags, _LAG_LIMITS))
    return _LIMITS | {name: limit for holds, limits in every if holds(seed) for name, limit in limits.items()}


def _whose(server: MemoryPostgres, row: rows.Execution) -> tuple[str, bool]:
    """The state of its job, or its DAG, and whether it belongs to a DAG run that was triggered by hand."""
    run: DagRun | None = server.tables[DAG_RUNS].get(row.dag_run_id)
    job = server.tables[rows.JOBS][row.job_id if run is None else run.dag_id]
    return job.row.state, run is not None and run.origin == "trigger"


@contextmanager
def _from_seed(seed: int) -> Iterator[None]:
    """Everything that is left to chance comes from the seed, limits are shorter, and nothing is logged."""
    chance = random.Random(seed)

    def new_job_id(now_ms: int) -> bytes:
        while True:
            job_id = chance.randbytes(16)
            if partition_of(job_id) < PARTITIONS:
                return job_id

    tokens = SimpleNamespace(uuid4=lambda: uuid.UUID(bytes=chance.randbytes(16)))
    logs = structlog.get_config()
    with ExitStack() as stack:
        stack.enter_context(patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True))
        stack.enter_context(patch("trio._core._run._r", random.Random(seed)))
        stack.enter_context(patch("shardwheel.store.jobs.new_job_id", new_job_id))
        stack.enter_context(patch("shardwheel.store.dags.new_job_id", new_job_id))
        stack.enter_context(patch("shardwheel.workers.worker.uuid", tokens))
        for name, value in _limits(seed).items():
            stack.enter_context(patch(f"shardwheel.{name}", value))
        stack.enter_context(patch.dict("shardwheel.store.claim.LEASES", short=timedelta(seconds=8)))
        stack.enter_context(patch.dict("shardwheel.workers.worker.HEARTBEAT_S", short=2.5))
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        try:
            yield
        finally:
            structlog.configure(**logs)
