"""Removes what is over and old enough, a batch at a time, with a rest between two.

In the result processor: not in a shard, where a tick must never wait for it, and without a leader, since a
row that whoever removes holds locked lets one at a time do it. Each batch is a transaction of its own and
short: an open one holds the change feed back. A walk over everything begins anew a minute after the last.
"""

from __future__ import annotations

from typing import Protocol

import trio

from shardwheel.errors import UnavailableError
from shardwheel.keeping import Keep
from shardwheel.logs import get_logger
from shardwheel.service import Service
from shardwheel.store.retention import FROM_THE_OLDEST, OTHERS, Retired

REST_S = 1.0
PAUSE_S = 60.0


class RetentionStore(Protocol):
    """What retiring asks of the store."""

    async def retire_executions(self, keep: Keep, after: bytes) -> Retired: ...
    async def retire_others(self, name: str, keep: Keep) -> int: ...
    async def drop_empty_months(self, keep: Keep) -> list[str]: ...


class Retiring:
    def __init__(self, service: Service, store: RetentionStore, keep: Keep) -> None:
        self._service = service
        self._store = store
        self._keep = keep
        self._log = get_logger(role="results")

    def add_to_service(self) -> None:
        self._service.add_loop("retention", self._run)

    async def _run(self) -> None:
        while not self._service.stopping.is_set():
            try:
                await self.run_once()
                self._service.health.well("retention")
            except UnavailableError as error:
                self._service.health.unwell("retention", str(error))
            await self._rest(PAUSE_S)

    async def run_once(self) -> int:
        """One walk over everything; how many rows went."""
        gone = await self._walk_executions()
        for name in OTHERS:
            gone += await self._retire(name)
        if months := await self._store.drop_empty_months(self._keep):
            self._log.info("dropped months", months=months)
        if gone:
            self._log.info("retired", rows=gone)
        return gone

    async def _walk_executions(self) -> int:
        gone, after = 0, FROM_THE_OLDEST
        while not self._service.stopping.is_set():
            retired = await self._store.retire_executions(self._keep, after)
            gone += retired.gone
            if retired.after is None:
                break
            after = retired.after
            await self._rest(REST_S)
        return gone

    async def _retire(self, name: str) -> int:
        gone = 0
        while not self._service.stopping.is_set():
            count = await self._store.retire_others(name, self._keep)
            if not count:
                break
            gone += count
            await self._rest(REST_S)
        return gone

    async def _rest(self, pause_s: float) -> None:
        with trio.move_on_after(pause_s):
            await self._service.stopping.wait()
