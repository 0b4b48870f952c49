"""What the contract suite of `Leases` needs of an implementation: clients, and a server it may harm.

Two rigs: `MemoryRig` on the twin under a clock that jumps, `EtcdRig` on a real etcd. Real time limits are
generous, because a test must hold on a machine ten times slower.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx
import trio

from shardwheel.compose.etcd import EtcdServer
from shardwheel.errors import NotFoundError
from shardwheel.etcd import Etcd
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.ports import KeyEvent, Leases, Put

# So long that nothing ends by it unless something hangs.
PATIENCE_S = 90.0


class LeasesRig(Protocol):
    def client(self) -> AbstractAsyncContextManager[Leases]:
        """A client of its own, on the same keys as the others of this rig."""

    async def stop(self) -> None:
        """The server ends without a word (kill -9)."""

    async def start(self) -> None:
        """It returns, on the same address with the same data."""

    async def lose_data(self) -> None:
        """It is restarted without its data."""

    async def compact(self, revision: int) -> None: ...


class MemoryRig:
    def __init__(self) -> None:
        self.server = MemoryEtcd()

    def client(self) -> MemoryLeases:
        return MemoryLeases(self.server)

    async def stop(self) -> None:
        self.server.stop()

    async def start(self) -> None:
        self.server.start()

    async def lose_data(self) -> None:
        self.server.wipe()

    async def compact(self, revision: int) -> None:
        self.server.compact(revision)


class EtcdRig:
    """Keys of its own on a server that may be shared; only a server of one's own may be harmed."""

    def __init__(self, server: EtcdServer) -> None:
        self.server = server
        self.cluster = f"test-{uuid.uuid4().hex[:12]}"

    def client(self, time_limit_s: float = PATIENCE_S) -> Etcd:
        # Silence is short, so that these watches also reopen while nothing happens.
        return Etcd(
            [self.server.endpoint], cluster=self.cluster, time_limit_s=time_limit_s, watch_silence_s=1.0
        )

    async def stop(self) -> None:
        await trio.to_thread.run_sync(self.server.kill)

    async def start(self) -> None:
        await trio.to_thread.run_sync(self.server.start)

    async def lose_data(self) -> None:
        await self.stop()
        await trio.to_thread.run_sync(shutil.rmtree, self.server.data)
        await self.start()

    async def compact(self, revision: int) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http:
            answer = await http.post(
                f"{self.server.endpoint}/v3/kv/compaction", json={"revision": revision, "physical": True}
            )
        answer.raise_for_status()


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds; fail when it does not for very long."""
    with trio.fail_after(PATIENCE_S):
        while not await condition():
            await trio.sleep(0.05)


async def take_events(batches: AsyncIterator[Sequence[KeyEvent] | None], most: int) -> list[KeyEvent]:
    """That many events of a watch, which must not say meanwhile that it lost its place."""
    events: list[KeyEvent] = []
    with trio.fail_after(PATIENCE_S):
        while len(events) < most:
            batch = await anext(batches)
            assert batch is not None
            events += batch
    return events


async def put_bound_to_a_short_lease(leases: Leases, key: str) -> int:
    """On a very slow machine a lease of 2 s ends before the next call; then a longer one is tried."""
    for ttl_s in (1, 8, 60):
        lease = await leases.grant(ttl_s)
        try:
            await leases.txn([], [Put(key, b"alive", lease)])
        except NotFoundError:
            continue
        return lease
    raise AssertionError("not even a lease of a minute lasted until the next call")
