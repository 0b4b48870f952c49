"""What the API knows of the cluster, and its way to etcd and to shards. The trio half.

The HTTP server runs on asyncio in a thread of its own; this is the rest of the process, which speaks to etcd
and to shards as every other service does. The two share little: a view that is replaced as a whole, and the
word that partitions changed, which crosses from thread to thread. No answer ever waits for a poke.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import trio

from shardwheel.errors import UnavailableError
from shardwheel.pokes import Pokes
from shardwheel.ports import Leases
from shardwheel.records import View, read_view
from shardwheel.service import Service
from shardwheel.tls import PLAIN_DOORS, DoorTls

T = TypeVar("T")
LOOK_S = 1.0


class Lookout:
    """Loops of the service. `view` and `poke` may be used from any thread once the service runs."""

    def __init__(self, service: Service, leases: Leases, tls: DoorTls = PLAIN_DOORS) -> None:
        self._service = service
        self._leases = leases
        self._token: trio.lowlevel.TrioToken | None = None
        self._pokes = Pokes(service, self._known, tls)
        self.view: View | None = None

    def add_to_service(self) -> None:
        self._service.add_loop("lookout", self._look)
        self._pokes.add_to_service()

    def poke(self, partitions: Iterable[int]) -> None:
        """Something of these partitions changed, and is committed. Lost where the process is stopping."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._pokes.poke, tuple(partitions))

    def errand(self, work: Callable[[Leases], Awaitable[T]]) -> T:
        """Do something with etcd; the thread that asks waits for it. etcd's own time limit holds."""
        token = self._token
        if token is None:
            raise UnavailableError("this process is starting or stopping")
        try:
            return trio.from_thread.run(work, self._leases, trio_token=token)
        except (trio.RunFinishedError, trio.Cancelled) as error:
            raise UnavailableError("this process is stopping", maybe_applied=True) from error

    async def _known(self) -> View | None:
        return self.view

    async def _look(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        stopping = self._service.stopping
        while not stopping.is_set():
            await self._look_once()
            with trio.move_on_after(LOOK_S):
                await stopping.wait()
        self._token = None

    async def _look_once(self) -> None:
        try:
            self.view = read_view(await self._leases.range(""))
            self._service.health.well("etcd")
        except UnavailableError as error:
            self._service.health.unwell("etcd", str(error))
