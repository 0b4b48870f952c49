"""What people do to DAG runs, on the twin in memory and on a real PostgreSQL; said twice, it is done once."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.store.dag_hands import Hand, cancel_run, force_complete, rerun, skip_task
from shardwheel.store.dag_inputs import read_inputs
from shardwheel.store.jobs import delete_job
from shardwheel.store.requests import cancel_execution
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Shape, dag_scene
from tests.contract.loop_rig import LoopRig

CHAIN = {"a": (), "b": ("a",), "c": ("b",)}
FAN = {"list": (), "each": ("list",), "join": ("each",)}
FATAL_B = {"b": Outcome.FATAL}


@trio_test
async def test_a_dead_task_completed_by_hand_lets_its_run_go_on(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        await s.play(dag, FATAL_B)
        assert (await s.run_state(run_id))[0] == "failed"
        assert (await s.hand(force_complete, run_id, "b", {"rows": 3})).changed
        assert not (await s.hand(force_complete, run_id, "b")).changed
        assert await s.fire_state(run_id) == "running"
        (c,) = await s.claim_waiting()
        assert (await rig.run(read_inputs, c.execution_id)).outputs == {"b": {"rows": 3}}
        await s.store.settle([s.result(dag, c, {})])
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)
        with pytest.raises(ConflictError, match="'a' succeeded already"):
            await s.hand(force_complete, run_id, "a")


@trio_test
async def test_completing_a_running_task_takes_it_from_its_worker(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.hand(force_complete, run_id, "a")
        assert (await s.store.settle([s.result(dag, a, {"a": Outcome.FATAL})])).stale == 1
        assert await s.play(dag) == ["b", "c"]
        assert (await s.run_state(run_id))[0] == "succeeded"


@trio_test
async def test_a_task_completed_before_its_parents_does_not_run(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        await s.hand(force_complete, run_id, "b")
        assert sorted(await s.play(dag)) == ["a", "c"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
@pytest.mark.parametrize(("children", "becomes"), [("run", "succeeded"), ("skip", "upstream_skipped")])
async def test_a_skipped_task_lets_its_children_run_or_not(
    rig: LoopRig, clock: MockClock | None, children: str, becomes: str
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, {})])
        assert (await s.hand(skip_task, run_id, "b", children)).changed
        assert not (await s.hand(skip_task, run_id, "b", children)).changed
        for c in await s.claim_waiting():
            assert (await rig.run(read_inputs, c.execution_id)) == ({"b": None}, ["b"])
            await s.store.settle([s.result(dag, c, {})])
        assert (await s.tasks(dag, run_id))["c"] == becomes
        assert (await s.run_state(run_id))[0] == "partial"


@trio_test
async def test_a_rerun_goes_on_from_the_failed_tasks_only(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({**CHAIN, "x": ()}))
        run_id = await s.start(dag)
        await s.play(dag, FATAL_B)
        assert (await s.tasks(dag, run_id))["c"] == "upstream_failed"
        assert (await s.hand(rerun, run_id)).changed
        assert not (await s.hand(rerun, run_id)).changed
        assert await s.play(dag) == ["b", "c"]
        assert await s.run_state(run_id) == ("succeeded", 0, 4, 0, 0)
        with pytest.raises(ConflictError, match="no failed task"):
            await s.hand(rerun, run_id)


@trio_test
async def test_a_rerun_of_a_fan_out_runs_its_failed_items(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        run_id = await s.start(dag)
        (first,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, [1, 2, 3])})])
        good, bad, late = await s.claim_waiting()
        await s.store.settle([s.result(dag, good, {}), s.result(dag, bad, {"each": Outcome.FATAL})])
        await s.store.settle([s.result(dag, late, {})])
        assert (await s.run_state(run_id))[0] == "failed"
        await s.hand(rerun, run_id)
        assert await s.play(dag) == ["each", "join"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_a_cancelled_run_queues_nobody(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": (), "c": ("a", "b")}))
        run_id = await s.start(dag)
        a = (await s.claim(*(await s.waiting())[:1])).claimed[0]
        assert (await s.hand(cancel_run, run_id)).changed
        assert not (await s.hand(cancel_run, run_id)).changed
        assert sorted((await s.tasks(dag, run_id)).values()) == ["cancelled", "cancelled", "running"]
        assert await s.fire_state(run_id) == "running"
        await s.store.settle([s.result(dag, a, {})])
        assert await s.waiting() == []
        assert await s.run_state(run_id) == ("cancelled", 0, 1, 1, 1)
        assert await s.fire_state(run_id) == "cancelled"
        for hand, *more in ((rerun,), (force_complete, "c"), (skip_task, "c")):
            with pytest.raises(ConflictError, match="is cancelled"):
                await s.hand(hand, run_id, *more)


@trio_test
async def test_cancelling_the_dags_execution_cancels_its_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        run_id = await s.start(dag)
        (first,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, [1, 2])})])
        assert await rig.run(cancel_execution, "t", run_id) == "cancelled"
        assert await rig.run(cancel_execution, "t", run_id) == "already_done"
        assert await s.run_state(run_id) == ("cancelled", 0, 1, 1, 1)
        assert await s.play(dag) == []


@trio_test
async def test_what_is_not_there_is_refused(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        with pytest.raises(NotFoundError, match="no task 'z'"):
            await s.hand(force_complete, run_id, "z")
        with pytest.raises(NotFoundError, match="no DAG run"):
            await s.hand(rerun, bytes(16))
        with pytest.raises(NotFoundError, match="no DAG run"):
            await rig.run(rerun, Hand("another", "somebody"), run_id)
        with pytest.raises(UsageError, match="output: takes"):
            await s.hand(force_complete, run_id, "a", "x" * 20_000)
        with pytest.raises(UsageError, match="children"):
            await s.hand(skip_task, run_id, "a", "both")


@trio_test
async def test_cancelling_what_is_over_leaves_its_run_as_it_ended(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """Or a run that kept its sla would have missed it."""
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": ()}))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, {})])
        ended = await s.ended_at(run_id)
        await trio.sleep(0.01)
        assert await rig.run(cancel_execution, "t", a.execution_id) == "already_done"
        assert await s.ended_at(run_id) == ended is not None


@trio_test
async def test_a_deleted_dag_ends_whatever_its_tasks_were_held_for(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}))
        run_id = await s.start(dag)
        held = await s.claim(*await s.waiting(), tasks=frozenset({"another"}))
        assert held.recorded == {("held", "handler_unknown"): 1}
        await rig.run(delete_job, "t", dag.job.job_id)
        await s.sweep_dags()
        assert await s.tasks(dag, run_id) == {"a": "deleted", "b": "upstream_skipped"}
        assert await s.run_state(run_id) == ("failed", 0, 0, 0, 2)


@trio_test
@pytest.mark.parametrize("policy", ["continue", "fail_fast"])
async def test_what_can_not_run_is_recorded_however_deep_it_is(
    rig: LoopRig, clock: MockClock | None, policy: str
) -> None:
    """Beside a chain that does run, and a task that waits for both."""
    depth = 40
    chain = {f"t{n:02}": (f"t{n - 1:02}",) if n else () for n in range(depth)}
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({**chain, "x": (), "y": ("x",), "z": ("y", "t30")}, policy=policy))
        run_id = await s.start(dag)
        fires = {dag.keys[fire.job_id]: fire for fire in await s.waiting()}
        await s.hand(skip_task, run_id, "t00", "skip")
        await s.claim(fires["t00"])
        tasks = await s.tasks(dag, run_id)
        assert {tasks.get(key) for key in list(chain)[1:]} == {"upstream_skipped"}
        assert "z" not in tasks
        assert await s.play(dag) == ["x", "y"]
        assert (await s.tasks(dag, run_id))["z"] == "upstream_skipped"
        assert await s.run_state(run_id) == ("partial", 0, 2, 0, depth + 1)
        await s.hand(force_complete, run_id, "t00")
        assert sorted(await s.play(dag)) == sorted([*list(chain)[1:], "z"])
        assert await s.run_state(run_id) == ("succeeded", 0, depth + 3, 0, 0)
