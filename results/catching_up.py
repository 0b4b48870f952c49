"""Catching up: once results no longer lag, DAG runs are told what was put off for them.

Level-triggered: the table says what is owed, whoever wrote it, so a processor that died after it put
something off leaves it to any other. Walks from run to run a batch at a time, each a transaction of its own,
and stops when the breaker opens again. Two that walk at once only wait for each other: what one has
told the other does not find any more. A run that PostgreSQL refuses to tell must not hold up the others: its
batch is told run by run, and that one is passed over until the next walk. What one transaction has no time
for is told by halves, and a run that is too much by itself is passed over too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import trio

from shardwheel.batches import halved
from shardwheel.errors import RefusedError, UnavailableError
from shardwheel.execution import Told
from shardwheel.logs import get_logger
from shardwheel.metrics import DAG_ENDS, tell_run_ends
from shardwheel.results.lag import LagBreaker
from shardwheel.service import Service

PAUSE_S = 1.0
# So many runs of one walk are hardly too much, each alone: the database is away.
AWAY_AFTER = 3
FROM_THE_FIRST = bytes(16)


class CatchingUpStore(Protocol):
    """What catching up asks of the store."""

    async def runs_put_off(self, after: bytes) -> list[bytes]: ...
    async def tell_runs(self, run_ids: Sequence[bytes]) -> Told: ...


class CatchingUp:
    def __init__(
        self,
        service: Service,
        store: CatchingUpStore,
        breaker: LagBreaker,
        poke: Callable[[Iterable[int]], None] = lambda _partitions: None,
    ) -> None:
        self._service = service
        self._store = store
        self._breaker = breaker
        self._poke = poke
        self._log = get_logger(role="results")
        self._too_much: set[bytes] = set()
        self._begin_after = FROM_THE_FIRST

    def add_to_service(self) -> None:
        self._service.add_loop("catch up", self._run)

    async def _run(self) -> None:
        while not self._service.stopping.is_set():
            try:
                await self.run_once()
                # At work all the same: no reason for whoever supervises to end the process.
                late = f"passed over, too much for a transaction: {len(self._too_much)} runs"
                self._service.health.well("catch up", late if self._too_much else "ok")
            except UnavailableError as error:
                self._service.health.unwell("catch up", str(error))
            with trio.move_on_after(PAUSE_S):
                await self._service.stopping.wait()

    async def run_once(self) -> int:
        """One walk over all runs that are owed something; of how many ends they were told."""
        told, after, self._too_much = 0, self._begin_after, set()
        self._begin_after = FROM_THE_FIRST
        while not self._breaker.is_open and not self._service.stopping.is_set():
            run_ids = await self._store.runs_put_off(after)
            if not run_ids:
                break
            ends = await self._tell([run_id for run_id in run_ids if run_id not in self._too_much])
            told += ends
            if not ends:  # Told by somebody else meanwhile, or refused. Else more may be owed to the same.
                after = run_ids[-1]
        if told:
            self._log.info("caught up", ends=told)
        return told

    async def _tell(self, run_ids: Sequence[bytes]) -> int:
        if not run_ids:
            return 0
        try:
            return self._note(await self._store.tell_runs(run_ids))
        except RefusedError as error:
            if len(run_ids) > 1:
                return sum([await self._tell([run_id]) for run_id in run_ids])
            self._log.error("passed over", run=run_ids[0].hex(), reason=str(error))
            return 0
        except UnavailableError as error:
            if len(run_ids) == 1:
                return self._pass_over(run_ids[0], error)
            self._log.warning("by halves", runs=len(run_ids), reason=str(error))
            half = halved(len(run_ids))
            return await self._tell(run_ids[:half]) + await self._tell(run_ids[half:])

    def _pass_over(self, run_id: bytes, error: UnavailableError) -> int:
        self._too_much.add(run_id)
        if len(self._too_much) >= AWAY_AFTER:
            self._begin_after = run_id  # Should it not be away, those behind have their turn next time.
            raise error
        self._log.error("passed over", run=run_id.hex(), reason=str(error))
        return 0

    def _note(self, told: Told) -> int:
        DAG_ENDS.labels("told").inc(told.ends)
        tell_run_ends(told.resolved.ends)
        self._poke(told.resolved.queued)
        return told.ends
