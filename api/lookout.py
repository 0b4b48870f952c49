"""What the API knows of the cluster, and how it tells shards that something changed. The trio half.

The HTTP server runs on asyncio in a thread of its own; this is the rest of the process, which speaks to etcd
and to shards as every other service does. The two share little: a view that is replaced as a whole, and a set
of partitions to poke. A poke is a hint: it may be lost, has a short limit, and no answer ever waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import httpx
import trio

from shardwheel.errors import UnavailableError
from shardwheel.logs import get_logger
from shardwheel.ports import Leases
from shardwheel.records import View, read_view
from shardwheel.service import Service

T = TypeVar("T")
LOOK_S = 1.0
POKE_LIMIT_S = 0.5
# A shard reads its changes at each poke: a thousand jobs a second must not make it read a thousand times.
POKE_PAUSE_S = 0.01


class Lookout:
    """Loops of the service. `view` and `poke` may be used from any thread once the service runs."""

    def __init__(self, service: Service, leases: Leases) -> None:
        self._service = service
        self._leases = leases
        self._token: trio.lowlevel.TrioToken | None = None
        self._changed: set[int] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._wake = trio.Event()
        self.view: View | None = None

    def add_to_service(self) -> None:
        self._service.add_loop("lookout", self._look)
        self._service.add_loop("pokes", self._poke)

    def poke(self, partitions: Iterable[int]) -> None:
        """Something of these partitions changed, and is committed."""
        if self._token is not None:
            self._changed.update(partitions)
            self._token.run_sync_soon(self._wake_up, idempotent=True)

    def errand(self, work: Callable[[Leases], Awaitable[T]]) -> T:
        """Do something with etcd; the thread that asks waits for it. etcd's own time limit holds."""
        token = self._token
        if token is None:
            raise UnavailableError("this process is starting or stopping")
        try:
            return trio.from_thread.run(work, self._leases, trio_token=token)
        except (trio.RunFinishedError, trio.Cancelled) as error:
            raise UnavailableError("this process is stopping", maybe_applied=True) from error

    async def _look(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        stopping = self._service.stopping
        while not stopping.is_set():
            await self._look_once()
            with trio.move_on_after(LOOK_S):
                await stopping.wait()
        self._token = None
        self._wake_up()

    async def _look_once(self) -> None:
        try:
            self.view = read_view(await self._leases.range(""))
            self._service.health.well("etcd")
        except UnavailableError as error:
            self._service.health.unwell("etcd", str(error))

    async def _poke(self) -> None:
        """A shard that is slow to answer holds up no other, and is told once of all that came meanwhile."""
        async with httpx.AsyncClient(trust_env=False, timeout=POKE_LIMIT_S) as client:
            async with trio.open_nursery() as nursery:
                while not self._service.stopping.is_set():
                    await self._wake.wait()
                    self._wake = trio.Event()
                    changed, self._changed = self._changed, set()
                    for address in self._addresses(changed):
                        self._again.add(address)
                        if address not in self._busy:
                            self._busy.add(address)
                            nursery.start_soon(self._poke_one, client, address)

    async def _poke_one(self, client: httpx.AsyncClient, address: str) -> None:
        while address in self._again:
            self._again.discard(address)
            try:
                with trio.move_on_after(POKE_LIMIT_S):
                    await client.post(f"http://{address}/poke")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                get_logger().debug("a poke was lost", address=address, reason=str(error))
            await trio.sleep(POKE_PAUSE_S)
        self._busy.discard(address)

    def _addresses(self, partitions: set[int]) -> set[str]:
        view = self.view
        if view is None:
            return set()
        owners = {view.owners[p].shard_id for p in partitions if p in view.owners}
        return {view.members[owner].address for owner in owners if owner in view.members}

    def _wake_up(self) -> None:
        self._wake.set()
