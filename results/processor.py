"""The result processor: takes results in batches, settles each batch in one transaction, then commits.

A crash between settling and committing replays the batch, which changes nothing: every result is fenced by
its attempt and claim token. So there is nothing here to remember between two batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import trio

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.execution import Settled
from shardwheel.logs import get_logger
from shardwheel.metrics import DUPLICATES
from shardwheel.ports import Bus, Consumer, Record
from shardwheel.service import Service
from shardwheel.topics import RESULTS, RESULTS_GROUP
from shardwheel.wire import Result, decode_result

BATCH = 500
WAIT_S = 0.5
PAUSE_S = 0.5


class SettlingStore(Protocol):
    """What settling asks of the store."""

    async def settle(self, results: Sequence[Result]) -> Settled: ...


class Processor:
    def __init__(self, service: Service, store: SettlingStore, bus: Bus) -> None:
        self._service = service
        self._store = store
        self._bus = bus
        self._log = get_logger(role="results")
        self.settled: Counter[str] = Counter()

    def add_to_service(self) -> None:
        self._service.add_loop("settle", self._run)

    async def _run(self) -> None:
        consumer = self._bus.consumer(RESULTS_GROUP, [RESULTS])
        try:
            while not self._service.stopping.is_set():
                await self.run_once(consumer)
        finally:
            await consumer.close()

    async def run_once(self, consumer: Consumer) -> int:
        """Settle one batch and commit it; returns its size. Waits as long as the database is away."""
        records = await consumer.take(BATCH, WAIT_S)
        if not records:
            self._service.health.well("settle")
            return 0
        await self._settle(self._decode(records))
        try:
            await consumer.commit(records)
        except UnavailableError as error:
            # Still owed, and sent again by the next call; a replay of the batch would change nothing.
            self._log.warning("commit is owed", reason=str(error))
        return len(records)

    async def _settle(self, results: list[Result]) -> None:
        while results:
            try:
                settled = await self._store.settle(results)
            except UnavailableError as error:
                self._service.health.unwell("settle", str(error))
                self._log.warning("waiting", reason=str(error), results=len(results))
                await trio.sleep(PAUSE_S)
                continue
            self.settled.update(settled.by_state)
            DUPLICATES.labels("settle").inc(settled.stale)
            self._service.health.well("settle")
            return

    def _decode(self, records: Sequence[Record]) -> list[Result]:
        results = []
        for record in records:
            try:
                results.append(decode_result(record.value))
            except UsageError as error:
                self._log.error("passed over", offset=record.offset, reason=str(error))
        return results
