"""Members: the cluster as etcd has it, read whole once a second, and at once when a watch hints at a change.

The read is linearizable and of one revision; it is the truth. The watch may stall, die or be compacted: it
only hastens the next read. Who acts on a view compares revisions in its transactions, so an old one is never
dangerous, only late.

    number = 0
    while ...:
        number = await members.newer(number)
        act on members.view
"""

from __future__ import annotations

import trio

from shardwheel.errors import UnavailableError
from shardwheel.ports import Leases
from shardwheel.records import View, read_view
from shardwheel.service import Service

READ_S = 1.0
# However many hints come: at most so many reads a second as fit.
BETWEEN_S = 0.02


class Members:
    """One reader a process; everybody in it looks at the same `view` (None before the first read)."""

    def __init__(self, service: Service, leases: Leases) -> None:
        self._service = service
        self._leases = leases
        self._hinted = trio.Event()
        self._news = trio.Event()
        self._ended = trio.Event()
        self.number = 0
        self.view: View | None = None

    def add_to_service(self) -> None:
        self._service.add_loop("members", self._run)

    def hint(self) -> None:
        """Read at once: something changed, or may have."""
        self._hinted.set()

    def end(self) -> None:
        """Whoever follows the views has left the cluster."""
        self._ended.set()

    async def newer(self, number: int) -> int:
        """Wait until a view after this number was read; its number."""
        while self.number <= number:
            await self._news.wait()
        return self.number

    async def run_once(self) -> View:
        self._hinted = trio.Event()
        self.view = read_view(await self._leases.range(""))
        self.number += 1
        self._news.set()
        self._news = trio.Event()
        return self.view

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            nursery.start_soon(self._watch)
            await self._ended.wait()
            nursery.cancel_scope.cancel()

    async def _read(self) -> None:
        while True:
            try:
                await self.run_once()
                self._service.health.well("members")
            except UnavailableError as error:
                self._service.health.unwell("members", str(error))
            await trio.sleep(BETWEEN_S)
            with trio.move_on_after(READ_S):
                await self._hinted.wait()

    async def _watch(self) -> None:
        await self.newer(0)
        assert self.view is not None
        async with self._leases.watch("", self.view.revision + 1) as batches:
            async for _ in batches:
                self.hint()
