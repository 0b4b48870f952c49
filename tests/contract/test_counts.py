"""What the sweep counts for the metrics, on the twin and on a real PostgreSQL."""

from __future__ import annotations

from trio.testing import MockClock, trio_test

from shardwheel.execution import Counts
from shardwheel.store.dag_hands import cancel_run
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Shape, dag_scene
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


@trio_test
async def test_runs_that_are_late_are_counted_while_they_are_under_way(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        late = await s.plant(Shape({"a": ()}, sla_ms=1))
        for shape in (Shape({"a": ()}, sla_ms=10**9), Shape({"a": ()})):
            await s.start(await s.plant(shape))
        run_id = await s.start(late, -3_600_000)
        assert await s.store.counts(list(ALL)) == Counts({}, 0, 1)
        elsewhere = [partition for partition in ALL if partition != late.job.partition]
        assert (await s.store.counts(elsewhere)).late_runs == 0
        await s.hand(cancel_run, run_id)
        assert await s.store.counts(list(ALL)) == Counts({}, 0, 0)
