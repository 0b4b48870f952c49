"""Fetching: a worker comes for what others of its pool had no handler for.

Messages are dealt out by partition, so an execution that met a worker without its handler would meet the same
one again, however often it was let go. It stays held instead, and any worker that has the handler looks for
it every other second and claims it, as if its message had come here. Where all workers of a pool have the
handler, the owner's sweep lets go what is left over from before (a deploy): then nobody can be the wrong one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

import trio

from shardwheel.errors import UnavailableError
from shardwheel.job import Priority
from shardwheel.service import Service
from shardwheel.wire import Fire
from shardwheel.workers.slots import Slots

EVERY_S = 2.0
# Claims these (message, priority), for which so many slots were taken, and begins what was claimed.
Start = Callable[[list[tuple[Fire, int]], int], Awaitable[None]]


class FetchingStore(Protocol):
    """What fetching asks of the store."""

    async def held_for_workers(
        self, pool: str, tasks: Collection[str], most: int
    ) -> list[tuple[Fire, int]]: ...


class Fetching:
    def __init__(
        self,
        service: Service,
        store: FetchingStore,
        slots: Slots,
        *,
        pool: str,
        tasks: Collection[str],
        most: int,
    ) -> None:
        self._service = service
        self._store = store
        self._slots = slots
        self._pool = pool
        self._tasks = tasks
        self._most = most

    async def run(self, start: Start) -> None:
        """Until the service stops; at once again while there is something."""
        while not self._service.stopping.is_set():
            fetched = 0
            try:
                fetched = await self.run_once(start)
                self._service.health.well("fetch")
            except UnavailableError as error:
                self._service.health.unwell("fetch", str(error))
            if not fetched:
                with trio.move_on_after(EVERY_S):
                    await self._service.stopping.wait()

    async def run_once(self, start: Start) -> int:
        """How many were there. Slots are waited for like everybody does, by priority."""
        fires = await self._store.held_for_workers(self._pool, self._tasks, self._most)
        for priority in Priority:
            wanted = [(fire, number) for fire, number in fires if number == priority]
            count = await self._slots.take(priority, len(wanted)) if wanted else 0
            if count:
                await start(wanted[:count], count)
        return len(fires)
