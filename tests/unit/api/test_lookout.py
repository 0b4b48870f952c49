"""The trio half: the view of the cluster, and what crosses to it from the HTTP server's thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import trio_test

from shardwheel.api.lookout import Lookout
from shardwheel.errors import UnavailableError
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.service import Service
from tests.unit.poked import PATIENCE_S, Door, behind, running


@asynccontextmanager
async def watching(*doors: Door) -> AsyncIterator[Lookout]:
    service = Service("test", address="nowhere:0")
    async with behind(*doors) as leases:
        lookout = Lookout(service, leases)
        lookout.add_to_service()
        async with running(service):
            with trio.fail_after(PATIENCE_S):
                while lookout.view is None:
                    await trio.sleep(0.001)
            yield lookout


@trio_test
async def test_another_thread_may_poke() -> None:
    first, second = Door(), Door()
    async with watching(first, second) as lookout:
        await trio.to_thread.run_sync(lookout.poke, [1])
        await second.until_heard(1)
        assert first.heard == 0


@trio_test
async def test_a_poke_before_the_start_or_after_the_end_is_lost_in_silence() -> None:
    Lookout(Service("test", address="nowhere:0"), MemoryLeases(MemoryEtcd())).poke([0])
    async with watching(Door()) as lookout:
        pass
    lookout.poke([0])


@trio_test
async def test_an_errand_is_done_for_a_thread_until_the_process_stops() -> None:
    async with watching(Door()) as lookout:
        snapshot = await trio.to_thread.run_sync(lookout.errand, lambda leases: leases.range("shards/"))
        assert [item.key for item in snapshot.items] == ["shards/s0"]


def test_an_errand_before_the_start_is_refused() -> None:
    lookout = Lookout(Service("test", address="nowhere:0"), MemoryLeases(MemoryEtcd()))
    with pytest.raises(UnavailableError):
        lookout.errand(lambda leases: leases.range(""))
