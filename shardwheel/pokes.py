"""Pokes: a word to a partition's owner that something of it changed, or waits and is due now.

A shard reads what changed every second, and at once when poked. So a poke is a hint: it may be lost, has a
short limit, and nobody waits for it. Whoever knows the cluster says who owns what; where nobody knows, or a
partition has just moved, the poke goes to nobody or to the wrong one, and the second's read makes it good.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable

import httpx
import trio

from shardwheel.errors import UnavailableError
from shardwheel.logs import get_logger
from shardwheel.ports import Leases
from shardwheel.records import View, read_view
from shardwheel.service import Service
from shardwheel.tls import PLAIN_DOORS, DoorTls

LOOK_S = 1.0
LIMIT_S = 0.5
# A shard reads its changes at each poke: a thousand jobs a second must not make it read a thousand times.
PAUSE_S = 0.01


class Asked:
    """The cluster, for a service that wants to know it only when it pokes: asked of etcd when somebody
    looks, and once a second at most."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._view: View | None = None
        self._ask_at = -math.inf

    async def look(self) -> View | None:
        if trio.current_time() >= self._ask_at:
            self._ask_at = trio.current_time() + LOOK_S
            try:
                self._view = read_view(await self._leases.range(""))
            except UnavailableError as error:
                get_logger().debug("owners unknown", reason=str(error))
        return self._view


class Pokes:
    """A loop of a service. A shard that is slow to answer holds up no other, and is told once of all that
    came meanwhile."""

    def __init__(
        self, service: Service, look: Callable[[], Awaitable[View | None]], tls: DoorTls = PLAIN_DOORS
    ) -> None:
        self._service = service
        self._tls = tls
        self._look = look
        self._changed: set[int] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._wake = trio.Event()

    def add_to_service(self) -> None:
        self._service.add_loop("pokes", self._run)

    def poke(self, partitions: Iterable[int]) -> None:
        """Something of these partitions changed, and is committed."""
        self._changed.update(partitions)
        if self._changed:
            self._wake.set()

    async def _run(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=LIMIT_S, verify=self._tls.verify) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end, nursery)
                while True:
                    await self._wake.wait()
                    view = await self._look()
                    self._wake = trio.Event()
                    changed, self._changed = self._changed, set()
                    for address in _owners_of(changed, view):
                        self._again.add(address)
                        if address not in self._busy:
                            self._busy.add(address)
                            nursery.start_soon(self._tell, client, address)

    async def _end(self, nursery: trio.Nursery) -> None:
        await self._service.stopping.wait()
        nursery.cancel_scope.cancel()

    async def _tell(self, client: httpx.AsyncClient, address: str) -> None:
        while address in self._again:
            self._again.discard(address)
            try:
                with trio.move_on_after(LIMIT_S):
                    await client.post(self._tls.url(address, "/poke"))
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                get_logger().debug("a poke was lost", address=address, reason=str(error))
            await trio.sleep(PAUSE_S)
        self._busy.discard(address)


def _owners_of(partitions: set[int], view: View | None) -> set[str]:
    """The addresses of those who own them, as far as they are known."""
    if view is None:
        return set()
    owners = {view.owners[p].shard_id for p in partitions if p in view.owners}
    return {view.members[owner].address for owner in owners if owner in view.members}
