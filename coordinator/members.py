"""Members: the cluster as etcd has it, read whole once a second, and kept up to date by a watch in between.

The read is linearizable and of one revision; it is the truth. The watch's events are applied to it at once,
so that a move waits for no read; the watch may stall, die or be compacted, then the next read makes it good.
Who acts on a view compares revisions in its transactions, so an old one is never dangerous, only late.

    number = 0
    while ...:
        number = await members.newer(number)
        act on members.view
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from shardwheel.errors import UnavailableError
from shardwheel.ports import KeyEvent, Leases, Snapshot
from shardwheel.records import View, read_view, with_events
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
        self._snapshot: Snapshot | None = None
        # What the watch said since the latest read began: that read may be older.
        self._meanwhile: list[KeyEvent] = []
        # How often the watch may have missed something, and how often that was made good by a read.
        self._gaps = 0
        self._gaps_filled = 0
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
        """Read everything."""
        self._hinted = trio.Event()
        self._meanwhile = []
        gaps = self._gaps
        snapshot = await self._leases.range("")
        self._gaps_filled = gaps
        return self._show(with_events(snapshot, self._meanwhile if self._is_gapless else ()))

    def take_in(self, events: Sequence[KeyEvent] | None) -> None:
        """What the watch says: events in order, or None when it may have missed some."""
        if events is None:
            self._gaps += 1
            self.hint()
            return
        self._meanwhile += events
        if self._snapshot is not None and self._is_gapless and events[-1].revision > self._snapshot.revision:
            self._show(with_events(self._snapshot, events))

    @property
    def _is_gapless(self) -> bool:
        return self._gaps == self._gaps_filled

    def _show(self, snapshot: Snapshot) -> View:
        self._snapshot = snapshot
        self.view = read_view(snapshot)
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
            async for events in batches:
                self.take_in(events)
