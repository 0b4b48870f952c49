"""The sweep: what events may have missed, made true again from the tables, for the partitions one owns.

What follows in a DAG's run may be too much for one transaction, or be refused, and would be for whoever owns
the partition next: so it keeps nothing else from being done, and ends no process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from shardwheel.errors import RefusedError
from shardwheel.execution import (
    FIRST_ENDING,
    FIRST_PAGES,
    Counts,
    EndingPage,
    HoldPages,
    Resolved,
    ResultsStand,
    Settled,
)
from shardwheel.limits import LANES, Tally, TaskName
from shardwheel.logs import get_logger
from shardwheel.metrics import DAG_LATE, DEAD_LETTERS, HELD, RESULTS_LAG, tell_run_ends
from shardwheel.ports import Bus
from shardwheel.shard.ground import generation_of
from shardwheel.topics import RESULTS, RESULTS_GROUP, result_topics

EXPANDED_AT_ONCE = 2_000


class SweepStore(Protocol):
    """What the sweep asks of the store."""

    async def sweep_lost(self, partitions: list[int], stand: ResultsStand) -> Settled: ...
    async def sweep_tasks(self, partitions: list[int], stand: ResultsStand) -> Settled: ...
    async def tally(self, counted: Mapping[TaskName, Tally], lane: int) -> None: ...
    async def sweep_runs(self, partitions: list[int], after: bytes) -> tuple[Resolved, bytes]: ...
    async def sweep_put_off(self, partitions: list[int]) -> Resolved: ...
    async def sweep_held(self, partitions: list[int], pages: HoldPages) -> HoldPages: ...
    async def sweep_slots(self, partitions: list[int]) -> int: ...
    async def sweep_completed(self, partitions: list[int], after: EndingPage) -> tuple[int, EndingPage]: ...
    async def sweep_overdue(self, partitions: list[int]) -> int: ...
    async def expand_work(self, partitions: list[int], most: int) -> int: ...
    async def counts(self, partitions: list[int]) -> Counts: ...
    async def make_months(self) -> list[str]: ...


class Sweep:
    def __init__(
        self, store: SweepStore, results_bus: Bus, topic_partitions: int, poke: Callable[[], None]
    ) -> None:
        self._store = store
        self._results_bus = results_bus
        self._topic_partitions = topic_partitions
        self._poke = poke
        self._hold_pages = FIRST_PAGES
        self._ending_page = FIRST_ENDING
        self._run_page = bytes(16)
        self._rounds = 0
        self._lane = random.randrange(LANES)
        self._log = get_logger(part="sweep")

    async def run_once(self, mine: list[int]) -> None:
        if not mine:
            _tell(Counts({}, 0))
            return
        self._hold_pages = await self._store.sweep_held(mine, self._hold_pages)
        if await self._store.expand_work(mine, EXPANDED_AT_ONCE):
            self._poke()
        _, self._ending_page = await self._store.sweep_completed(mine, self._ending_page)
        number = self._rounds
        if number % 5 == 0:
            _tell(await self._store.counts(mine))
        if number % 30 == 0:
            await self._store.sweep_overdue(mine)
            await self._store.sweep_slots(mine)
        if number % 1800 == 0:
            await self._store.make_months()
        self._rounds += 1
        try:
            await self._go_on_with_runs(mine, number)
        finally:
            # Last: while the results' Kafka is away nobody can tell what was lost; all else goes on.
            await self._put_back(mine)

    async def _go_on_with_runs(self, mine: list[int], number: int) -> None:
        with self._passing_over():
            if number % 30 == 0:
                resolved, self._run_page = await self._store.sweep_runs(mine, self._run_page)
                self._go_on_from(resolved)
        with self._passing_over():
            if number % 5 == 0:
                self._go_on_from(await self._store.sweep_put_off(mine))

    async def _put_back(self, mine: list[int]) -> None:
        stand = await self._results_stand()
        await self._note(await self._store.sweep_lost(mine, stand))
        with self._passing_over():
            await self._note(await self._store.sweep_tasks(mine, stand))

    @contextmanager
    def _passing_over(self) -> Iterator[None]:
        try:
            yield
        except RefusedError as error:
            self._log.error("passed over", reason=str(error))

    async def _note(self, settled: Settled) -> None:
        """What hangs counts as what its worker reports does: for the breaker and the retry budget."""
        self._go_on_from(settled.resolved)
        if settled.tallies:
            await self._store.tally(settled.tallies, self._lane)

    def _go_on_from(self, resolved: Resolved) -> None:
        tell_run_ends(resolved.ends)
        if resolved.queued:
            self._poke()

    async def _results_stand(self) -> ResultsStand:
        specs = result_topics(self._topic_partitions)
        generation = await generation_of(self._results_bus, [RESULTS], specs)
        committed = await self._results_bus.committed_offsets(RESULTS_GROUP, [RESULTS])
        ends = await self._results_bus.end_offsets([RESULTS])
        RESULTS_LAG.set(sum(max(0, end - committed.get(place, 0)) for place, end in ends.items()))
        settled = {place.topic_partition: committed.get(place, 0) for place in ends}
        return ResultsStand(generation, settled)


def _tell(counts: Counts) -> None:
    """Of this shard's own partitions: all shards added up say how it is in the cluster."""
    HELD.clear()
    for reason, count in counts.held.items():
        HELD.labels(reason).set(count)
    DEAD_LETTERS.set(counts.dead_letters)
    DAG_LATE.set(counts.late_runs)
