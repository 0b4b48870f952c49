"""The result processor: takes results in batches, settles each batch in one transaction, then commits.

A crash between settling and committing replays the batch, which changes nothing: every result is fenced by
its attempt and claim token. So there is nothing here to remember between two batches.

A result that PostgreSQL refuses must not hold up those that it travels with: its batch is settled one by one,
and the one that is refused again ends as fatal, without the words that its worker had for it. Nor may
a batch that takes too long, since hundreds of DAG runs fan out in it: as it is, it would do so for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec
import trio

from shardwheel.batches import Batches, halved
from shardwheel.errors import RefusedError, UnavailableError, UsageError
from shardwheel.execution import Settled
from shardwheel.logs import get_logger
from shardwheel.metrics import DAG_ENDS, DUPLICATES, tell_run_ends
from shardwheel.ports import Bus, Record
from shardwheel.results.lag import LagBreaker
from shardwheel.results.tallies import Tallies, TallyStore
from shardwheel.service import Service
from shardwheel.topics import RESULTS, RESULTS_GROUP
from shardwheel.wire import Outcome, Result, decode_result

BATCH = 500
WAIT_S = 0.5
PAUSE_S = 0.5


class SettlingStore(TallyStore, Protocol):
    """What settling asks of the store."""

    async def settle(self, results: Sequence[Result], *, put_off: bool = False) -> Settled: ...


class Processor:
    def __init__(
        self,
        service: Service,
        store: SettlingStore,
        bus: Bus,
        poke: Callable[[Iterable[int]], None] = lambda _partitions: None,
        breaker: LagBreaker | None = None,
    ) -> None:
        """`poke` is told of partitions where something waits that is due now: a hint for their owners. While
        the breaker is open, DAG runs are told later."""
        self._service = service
        self._breaker = breaker or LagBreaker()
        self._poke = poke
        self._store = store
        self._bus = bus
        self._tallies = Tallies(service, store)
        self._log = get_logger(role="results")
        self.settled: Counter[str] = Counter()

    def add_to_service(self) -> None:
        self._service.add_loop("settle", self._run)
        self._tallies.add_to_service()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            batches = Batches(self._bus.consumer(RESULTS_GROUP, [RESULTS]), self._settle, nursery)
            try:
                while not self._service.stopping.is_set():
                    if not await batches.step(BATCH, WAIT_S):
                        self._service.health.well("settle")
            finally:
                await batches.close()

    async def _settle(self, records: Sequence[Record]) -> None:
        """Settle one batch, whatever is in it."""
        results = self._decode(records)
        try:
            await self._settle_all(results)
        except RefusedError as error:
            self._log.error("one by one", results=len(results), reason=str(error))
            for result in results:
                await self._settle_alone(result)

    async def _settle_alone(self, result: Result) -> None:
        try:
            await self._settle_all([result])
        except RefusedError as error:
            self._log.error("refused", execution=result.execution_id.hex(), reason=str(error))
            await self._settle_without_words(result, str(error))

    async def _settle_without_words(self, result: Result, reason: str) -> None:
        try:
            await self._settle_all([_unstorable(result, reason)])
        except RefusedError as error:
            # Its lease will run out, and the sweep takes it for lost.
            self._log.error("passed over", execution=result.execution_id.hex(), reason=str(error))

    async def _settle_all(self, results: Sequence[Result]) -> None:
        """Settle these in one transaction, or in several: what does not fit into the time that one may take
        is tried again by halves; of one alone its DAG's run is told later, so that what follows there does
        not hold up all results behind it. Waits as long as the database is away."""
        most, is_too_much = len(results), False
        while results:
            batch = results[:most]
            try:
                put_off = self._breaker.is_open or is_too_much
                settled = await self._store.settle(batch, put_off=put_off)
            except UnavailableError as error:
                self._service.health.unwell("settle", str(error))
                self._log.warning("waiting", reason=str(error), results=len(batch))
                most, is_too_much = halved(most), len(batch) == 1
                await trio.sleep(PAUSE_S)
                continue
            results, is_too_much = results[most:], False
            self._note(settled)

    def _note(self, settled: Settled) -> None:
        self.settled.update(settled.by_state)
        self._tallies.add(settled.tallies)
        DUPLICATES.labels("settle").inc(settled.stale)
        DAG_ENDS.labels("put_off").inc(settled.put_off)
        tell_run_ends(settled.resolved.ends)
        self._poke(settled.resolved.queued)
        self._service.health.well("settle")

    def _decode(self, records: Sequence[Record]) -> list[Result]:
        results = []
        for record in records:
            try:
                results.append(decode_result(record.value))
            except UsageError as error:
                self._log.error("passed over", offset=record.offset, reason=str(error))
        return results


def _unstorable(result: Result, reason: str) -> Result:
    """The same attempt as failed for good: another one would say what can't be stored once more."""
    return msgspec.structs.replace(
        result,
        outcome=Outcome.FATAL,
        error_class="UnstorableResult",
        message=f"its result could not be stored: {reason}",
        traceback="",
        output=b"",
        retry_after_ms=-1,
    )
