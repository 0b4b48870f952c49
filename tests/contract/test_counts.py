"""What the sweep counts for the metrics, on the twin and on a real PostgreSQL."""

from __future__ import annotations

from trio.testing import MockClock, trio_test

from shardwheel.execution import Counts
from shardwheel.wire import Outcome
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import ALL, fire_of, result_of, scene


@trio_test
async def test_held_and_dead_are_counted_by_partition(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        assert await s.store.counts(list(ALL)) == Counts({}, 0)
        held, dead = await s.create(every="10s"), await s.create(every="10s", max_retries=0)
        await s.claim(fire_of(held), tasks=frozenset({"other"}))
        await s.store.settle([result_of(await s.running(dead), Outcome.FAILED)])
        assert await s.store.counts(list(ALL)) == Counts({"handler_unknown": 1}, 1)
        elsewhere = [partition for partition in ALL if partition not in (held.partition, dead.partition)]
        assert await s.store.counts(elsewhere) == Counts({}, 0)
