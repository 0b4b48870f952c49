"""Items of a fan-out that were skipped, or are not needed any more: what waits for all of them must not run
without one. On the twin in memory and on a real PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import Connection
from trio.testing import MockClock, trio_test

from shardwheel.execution import Claimed
from shardwheel.memory.dag_rows import DAG_FANS
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_hands import force_complete, rerun, skip_task
from shardwheel.store.jobs import delete_job
from shardwheel.store.requests import cancel_execution
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Dag, DagScene, Shape, dag_scene
from tests.contract.loop_rig import LoopRig, MemoryLoopRig

FAN = {"list": (), "each": ("list",), "join": ("each",)}
FANS = frozenset({"each"})
LIMITED = {"not_after_s": 60}


async def fanned_out(s: DagScene, dag: Dag) -> tuple[bytes, list[Claimed]]:
    """A run with three items, of which the first is claimed and the others wait."""
    run_id = await s.start(dag)
    (first,) = await s.claim_waiting()
    await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, [1, 2, 3])})])
    claimed = (await s.claim((await s.waiting())[0])).claimed
    return run_id, claimed


async def let_expire(s: DagScene) -> None:
    """What waits can't begin any more."""
    fires = await s.waiting()
    await s.rig.make_overdue()
    await s.claim(*fires)
    await s.sweep_dags()


async def fan_of(s: DagScene, dag: Dag, run_id: bytes) -> tuple[int, int, int] | None:
    """How many items are open, failed, skipped, as they were counted; None: it has none."""
    if isinstance(s.rig, MemoryLoopRig):
        fan = s.rig.server.tables[DAG_FANS].get((run_id, dag.tasks["each"]))
        return None if fan is None else (fan.open_items, fan.failed_items, fan.skipped_items)
    found: tuple[int, int, int] | None = await s.rig.run(_read_fan, run_id)
    return found


def _read_fan(conn: Connection[Any], run_id: bytes) -> Any:
    return conn.execute(
        "SELECT open_items, failed_items, skipped_items FROM shardwheel.dag_fans WHERE dag_run_id = %s",
        [Uuid(run_id)],
    ).fetchone()


async def stands(s: DagScene, dag: Dag, run_id: bytes) -> dict[str, str]:
    """The tasks without their items."""
    return {key: word for key, word in (await s.tasks(dag, run_id)).items() if "[" not in key}


@trio_test
@pytest.mark.parametrize("policy", ["fail_fast", "continue", "retry"])
async def test_an_expired_item_skips_the_join(rig: LoopRig, clock: MockClock | None, policy: str) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS, policy), LIMITED, max_retries=2)
        run_id, claimed = await fanned_out(s, dag)
        await let_expire(s)
        assert (await stands(s, dag, run_id))["each"] == "running"
        assert await fan_of(s, dag, run_id) == (1, 0, 2)
        await s.store.settle([s.result(dag, one, {}) for one in claimed])
        right = {"list": "succeeded", "each": "item_skipped", "join": "upstream_skipped"}
        assert await stands(s, dag, run_id) == right
        assert await s.play(dag) == []
        assert await s.run_state(run_id) == ("partial", 0, 1, 0, 2)


@trio_test
async def test_items_of_a_deleted_dag_skip_the_join(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS))
        run_id, claimed = await fanned_out(s, dag)
        await rig.run(delete_job, "t", dag.job.job_id)
        assert await s.play(dag) == []
        await s.store.settle([s.result(dag, one, {}) for one in claimed])
        await s.sweep_dags()
        right = {"list": "succeeded", "each": "item_skipped", "join": "upstream_skipped"}
        assert await stands(s, dag, run_id) == right
        assert await s.run_state(run_id) == ("partial", 0, 1, 0, 2)


@trio_test
async def test_a_failed_item_outweighs_a_skipped_one_until_it_runs_again(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS, "continue"), LIMITED)
        run_id, claimed = await fanned_out(s, dag)
        await s.store.settle([s.result(dag, one, {"each": Outcome.FATAL}) for one in claimed])
        await let_expire(s)
        assert (await stands(s, dag, run_id))["join"] == "upstream_failed"
        assert await s.run_state(run_id) == ("partial", 0, 1, 1, 1)
        await s.hand(rerun, run_id)
        assert await s.play(dag) == ["each"]
        right = {"list": "succeeded", "each": "item_skipped", "join": "upstream_skipped"}
        assert await stands(s, dag, run_id) == right
        assert await fan_of(s, dag, run_id) == (0, 0, 2)


@trio_test
@pytest.mark.parametrize(("hand", "more"), [(force_complete, [["x"]]), (skip_task, ["run"])])
async def test_somebody_may_let_the_join_run_without_what_was_skipped(
    rig: LoopRig, clock: MockClock | None, hand: Any, more: list[Any]
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS), LIMITED)
        run_id, claimed = await fanned_out(s, dag)
        await s.store.settle([s.result(dag, one, {}) for one in claimed])
        await let_expire(s)
        assert (await s.run_state(run_id))[0] == "partial"
        assert (await s.hand(hand, run_id, "each", *more)).changed
        assert await s.play(dag) == ["join"]


@trio_test
async def test_the_sweep_counts_skipped_items_of_a_run_that_was_forgotten(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS), LIMITED)
        run_id, claimed = await fanned_out(s, dag)
        (_, late) = await s.waiting()
        await rig.make_overdue()
        await s.claim(late)
        await s.sweep_dags()
        await s.end_behind_their_backs(run_id)
        await s.store.settle([s.result(dag, one, {}) for one in claimed])
        assert await fan_of(s, dag, run_id) == (1, 0, 1)
        await s.sweep_dags()
        assert await fan_of(s, dag, run_id) == (0, 0, 1)
        assert (await stands(s, dag, run_id))["join"] == "upstream_skipped"


@trio_test
async def test_a_fan_out_completed_by_hand_has_no_open_items(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS))
        run_id, claimed = await fanned_out(s, dag)
        await s.hand(force_complete, run_id, "each", [])
        assert await fan_of(s, dag, run_id) == (1, 2, 0)
        assert await s.play(dag) == ["join"]
        await s.store.settle([s.result(dag, one, {}) for one in claimed])
        assert await fan_of(s, dag, run_id) == (0, 2, 0)
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_items_that_are_not_needed_are_in_no_round(rig: LoopRig, clock: MockClock | None) -> None:
    """Policy retry runs what failed again: not what somebody said is done."""
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS, "retry"), max_retries=1)
        run_id, _ = await fanned_out(s, dag)
        await s.hand(force_complete, run_id, "each", [])
        (join,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, join, {"join": Outcome.FATAL})])
        await rig.make_overdue()
        assert await s.play(dag) == ["join"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_a_fan_out_completed_before_its_parent_counts_no_items(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS))
        run_id = await s.start(dag)
        await s.hand(force_complete, run_id, "each", ["x"])
        ran = await s.play(dag, {"list": (Outcome.SUCCEEDED, [1, 2])})
        assert sorted(ran) == ["join", "list"]
        assert await fan_of(s, dag, run_id) is None
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


TWO_LEGS = {**FAN, "x": ()}


async def stopped_in_the_middle(s: DagScene, dag: Dag) -> bytes:
    """A run that failed fast, by another leg, while one of its items ran and two waited."""
    run_id = await s.start(dag)
    claimed = {dag.keys[one.job_id]: one for one in await s.claim_waiting()}
    await s.store.settle([s.result(dag, claimed["list"], {"list": (Outcome.SUCCEEDED, [1, 2, 3])})])
    (item,) = (await s.claim((await s.waiting())[0])).claimed
    await s.store.settle([s.result(dag, claimed["x"], {"x": Outcome.FATAL})])
    await s.store.settle([s.result(dag, item, {})])
    return run_id


@trio_test
async def test_a_fan_out_that_another_task_stopped_is_skipped_and_goes_on_with_its_run(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """Nothing of it failed: whoever runs the other task again must not have to name it."""
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(TWO_LEGS, FANS))
        run_id = await stopped_in_the_middle(s, dag)
        right = {"list": "succeeded", "each": "run_failed", "join": "run_failed", "x": "dead"}
        assert await stands(s, dag, run_id) == right
        assert await fan_of(s, dag, run_id) == (0, 0, 2)
        assert await s.run_state(run_id) == ("failed", 0, 1, 1, 2)
        await s.hand(rerun, run_id, ["x"])
        assert await fan_of(s, dag, run_id) == (2, 0, 0)
        assert sorted(await s.play(dag)) == ["each", "each", "join", "x"]
        assert await s.run_state(run_id) == ("succeeded", 0, 4, 0, 0)


@trio_test
async def test_items_that_were_stopped_go_on_though_their_fan_out_is_not_over(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(TWO_LEGS, FANS))
        run_id = await s.start(dag)
        claimed = {dag.keys[one.job_id]: one for one in await s.claim_waiting()}
        await s.store.settle([s.result(dag, claimed["list"], {"list": (Outcome.SUCCEEDED, [1, 2, 3])})])
        (item,) = (await s.claim((await s.waiting())[0])).claimed
        await s.store.settle([s.result(dag, claimed["x"], {"x": Outcome.FATAL})])
        assert await fan_of(s, dag, run_id) == (1, 0, 2)
        await s.hand(rerun, run_id)
        assert await fan_of(s, dag, run_id) == (3, 0, 0)
        await s.store.settle([s.result(dag, item, {})])
        assert sorted(await s.play(dag)) == ["each", "each", "join", "x"]
        assert (await s.run_state(run_id))[0] == "succeeded"


@trio_test
async def test_an_item_that_failed_keeps_its_fan_out_dead_whatever_else_was_stopped(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(TWO_LEGS, FANS))
        run_id = await s.start(dag)
        claimed = {dag.keys[one.job_id]: one for one in await s.claim_waiting()}
        await s.store.settle([s.result(dag, claimed["list"], {"list": (Outcome.SUCCEEDED, [1, 2, 3])})])
        (item,) = (await s.claim((await s.waiting())[0])).claimed
        await s.store.settle([s.result(dag, item, {"each": Outcome.FATAL})])
        await s.store.settle([s.result(dag, claimed["x"], {"x": Outcome.FATAL})])
        assert (await stands(s, dag, run_id))["each"] == "dead"
        assert await fan_of(s, dag, run_id) == (0, 1, 2)
        await s.hand(rerun, run_id)
        assert sorted(await s.play(dag)) == ["each", "each", "each", "join", "x"]
        assert (await s.run_state(run_id))[0] == "succeeded"


@trio_test
async def test_a_round_leaves_alone_what_somebody_has_cancelled(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """Of a fan-out, of which nothing else failed, too."""
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(TWO_LEGS, FANS, "retry"), max_retries=1)
        run_id, (item,) = await fanned_out_beside(s, dag)
        waiting = [fire for fire in await s.waiting() if fire.job_id == dag.tasks["each"]]
        assert await rig.run(cancel_execution, "t", waiting[0].execution_id) == "cancelled"
        (other,) = (await s.claim(waiting[1])).claimed
        await s.store.settle([s.result(dag, one, {}) for one in (item, other)])
        assert (await s.run_state(run_id))[0] == "running"
        assert await s.play(dag, {"x": Outcome.FATAL}) == ["x", "x"]
        right = {"list": "succeeded", "each": "dead", "join": "upstream_failed", "x": "dead"}
        assert await stands(s, dag, run_id) == right
        assert await s.run_state(run_id) == ("partial", 0, 1, 2, 1)
        await s.hand(rerun, run_id)
        assert sorted(await s.play(dag)) == ["each", "join", "x"]


async def fanned_out_beside(s: DagScene, dag: Dag) -> tuple[bytes, list[Claimed]]:
    """As `fanned_out`, while the other leg waits."""
    run_id = await s.start(dag)
    (first,) = (
        await s.claim(*[fire for fire in await s.waiting() if fire.job_id == dag.tasks["list"]])
    ).claimed
    await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, [1, 2, 3])})])
    item = next(fire for fire in await s.waiting() if fire.job_id == dag.tasks["each"])
    return run_id, (await s.claim(item)).claimed


@trio_test
async def test_a_fan_out_whose_items_are_too_large_together_is_dead(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """Each has its task's params: ten thousand times 64 KiB would end whoever settles the parent."""
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, FANS), {"params": {"text": "x" * 60_000}})
        run_id = await s.start(dag)
        assert await s.play(dag, {"list": (Outcome.SUCCEEDED, {"count": 10_000})}) == ["list"]
        assert await stands(s, dag, run_id) == {
            "list": "succeeded",
            "each": "dead",
            "join": "upstream_failed",
        }
