"""Runs that go on after their end, of DAGs whose runs must not overlap; on the twin in memory and on a real
PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock, trio_test

from shardwheel.errors import ConflictError
from shardwheel.ids import text_of
from shardwheel.store.dag_hands import force_complete, rerun, skip_task
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Dag, DagScene, Shape, dag_scene
from tests.contract.loop_rig import LoopRig

PAIR = Shape({"a": (), "b": ("a",)})
FATAL_A = {"a": Outcome.FATAL}
HOUR_MS = 3_600_000
overlaps = pytest.mark.parametrize("overlap", ["skip", "queue"])


async def a_failed_run(s: DagScene, overlap: str, shape: Shape = PAIR) -> tuple[Dag, bytes]:
    dag = await s.plant(shape, overlap=overlap)
    run_id = await s.start(dag)
    await s.play(dag, FATAL_A)
    assert (await s.run_state(run_id))[0] == "failed"
    assert await s.rig.slots() == (0, 0)
    return dag, run_id


@trio_test
@overlaps
async def test_a_rerun_has_its_dags_slot_until_it_is_over(
    rig: LoopRig, clock: MockClock | None, overlap: str
) -> None:
    async with dag_scene(rig) as s:
        dag, first = await a_failed_run(s, overlap)
        await s.hand(rerun, first)
        assert await rig.slots() == (0, 1)
        second = await s.start(dag, HOUR_MS)
        assert await s.fire_state(second) == ("skipped" if overlap == "skip" else "held")
        assert await s.play(dag) == ["a", "b"]
        assert await s.run_state(first) == ("succeeded", 0, 2, 0, 0)
        assert await s.fire_state(second) == ("skipped" if overlap == "skip" else "running")
        assert await s.play(dag) == ([] if overlap == "skip" else ["a", "b"])
        assert await rig.slots() == (0, 0)


@trio_test
@overlaps
@pytest.mark.parametrize(("hand", "more"), [(rerun, []), (force_complete, ["a"]), (skip_task, ["a"])])
async def test_a_run_does_not_go_on_while_another_one_does(
    rig: LoopRig, clock: MockClock | None, overlap: str, hand: Any, more: list[str]
) -> None:
    async with dag_scene(rig) as s:
        dag, first = await a_failed_run(s, overlap)
        before = await s.tasks(dag, first)
        second = await s.start(dag, HOUR_MS)
        with pytest.raises(ConflictError, match=f"run {text_of(second)} of the same DAG is not over"):
            await s.hand(hand, first, *more)
        assert (await s.tasks(dag, first), await s.fire_state(first)) == (before, "dead")
        assert await s.play(dag) == ["a", "b"]
        assert (await s.hand(hand, first, *more)).changed
        assert (await s.play(dag))[-1] == "b"
        assert await rig.slots() == (0, 0)


@trio_test
async def test_what_lets_nothing_run_needs_no_slot(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag, first = await a_failed_run(s, "skip", Shape({"a": ()}))
        await s.start(dag, HOUR_MS)
        assert (await s.hand(force_complete, first, "a")).changed
        assert await s.run_state(first) == ("succeeded", 0, 1, 0, 0)
        assert await rig.slots() == (0, 1)


@trio_test
async def test_of_two_runs_that_should_go_on_one_does(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag, first = await a_failed_run(s, "queue")
        second = await s.start(dag, HOUR_MS)
        await s.play(dag, FATAL_A)
        await s.hand(rerun, second)
        with pytest.raises(ConflictError, match="would overlap"):
            await s.hand(rerun, first)
        assert not (await s.hand(rerun, second)).changed
        await s.play(dag)
        await s.hand(rerun, first)
        await s.play(dag)
        assert [(await s.run_state(run_id))[0] for run_id in (first, second)] == ["succeeded"] * 2


@trio_test
async def test_rounds_of_a_policy_keep_the_slot(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(PAIR._replace(policy="retry"), overlap="skip", max_retries=1)
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, FATAL_A)])
        assert (await s.run_state(run_id), await rig.slots()) == (("running", 2, 0, 0, 0), (0, 1))
        await s.play(dag, FATAL_A)
        assert ((await s.run_state(run_id))[0], await rig.slots()) == ("failed", (0, 0))
