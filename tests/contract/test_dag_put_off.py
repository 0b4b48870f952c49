"""Ends of DAG tasks that are put off: to its run a task is over when the run was told, once, whatever happens
to either meanwhile. On the twin in memory and on a real PostgreSQL."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from psycopg import Connection
from trio.testing import MockClock, trio_test

from shardwheel.errors import ConflictError
from shardwheel.execution import Resolved, Told
from shardwheel.store import dag_hands
from shardwheel.store.dag_hands import cancel_run, force_complete, rerun, skip_task
from shardwheel.store.dag_put_off import sweep_put_off, tell_runs
from shardwheel.store.dag_resolve import Resolution
from shardwheel.store.dag_runs import Run, lock_runs
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Dag, DagScene, Deed, Shape, dag_scene
from tests.contract.loop_rig import LoopRig, MemoryLoopRig
from tests.contract.loop_scene import ALL

CHAIN = {"a": (), "b": ("a",), "c": ("b",)}
DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
FAN = {"list": (), "each": ("list",), "join": ("each",)}
FIRST = bytes(16)


async def put_off(s: DagScene, dag: Dag, deeds: Mapping[str, Deed] | None = None) -> list[str]:
    """Run what waits, and put off what follows; the keys of what ran."""
    claimed = await s.claim_waiting()
    settled = await s.store.settle([s.result(dag, one, deeds or {}) for one in claimed], put_off=True)
    assert settled.resolved == Resolved()
    return [dag.keys[one.job_id] for one in claimed]


async def catch_up(s: DagScene) -> int:
    told = 0
    while run_ids := await s.store.runs_put_off(FIRST):
        told += (await s.store.tell_runs(run_ids)).ends
    return told


@trio_test
async def test_a_run_goes_on_once_it_was_told(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        assert await put_off(s, dag) == ["a"]
        assert await s.tasks(dag, run_id) == {"a": "succeeded"}
        assert await s.run_state(run_id) == ("running", 3, 0, 0, 0)
        assert await s.store.runs_put_off(FIRST) == [run_id]
        assert await s.store.runs_put_off(run_id) == []
        told = await s.store.tell_runs([run_id])
        assert (told.ends, told.resolved.queued) == (1, frozenset({dag.job.partition}))
        assert await s.store.tell_runs([run_id]) == (0, Resolved())
        assert await s.play(dag) == ["b", "c"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_a_result_told_twice_is_put_off_once(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        assert (await s.store.settle([s.result(dag, a, {})], put_off=True)).put_off == 1
        again = await s.store.settle([s.result(dag, a, {})], put_off=True)
        assert (again.stale, again.put_off) == (1, 0)
        assert (await s.store.settle([s.result(dag, a, {})])).stale == 1
        assert await catch_up(s) == 1
        assert (await s.run_state(run_id))[:3] == ("running", 2, 1)


@trio_test
@pytest.mark.parametrize("late", ["both", "first", "second"])
async def test_a_join_waits_for_the_parent_that_was_put_off(
    rig: LoopRig, clock: MockClock | None, late: str
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, {})])
        b, c = await s.claim_waiting()
        await s.store.settle([s.result(dag, b, {})], put_off=late != "second")
        await s.store.settle([s.result(dag, c, {})], put_off=late != "first")
        assert await s.waiting() == []
        assert await catch_up(s) == (2 if late == "both" else 1)
        assert await s.play(dag) == ["d"]
        assert await s.run_state(run_id) == ("succeeded", 0, 4, 0, 0)


@trio_test
async def test_a_retry_is_not_put_off(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        fields = {"max_retries": 1, "backoff": {"base_s": 0.001}}
        dag = await s.plant(Shape(CHAIN), fields)
        run_id = await s.start(dag)
        await put_off(s, dag, {"a": Outcome.FAILED})
        assert await s.tasks(dag, run_id) == {"a": "retry_wait"}
        assert await s.store.runs_put_off(FIRST) == []
        await put_off(s, dag, {"a": Outcome.FAILED})
        assert await catch_up(s) == 1
        assert (await s.tasks(dag, run_id))["b"] == "upstream_failed"
        assert (await s.run_state(run_id))[0] == "failed"


@trio_test
async def test_items_put_off_end_their_fan_out_when_all_are_told(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        run_id = await s.start(dag)
        await put_off(s, dag, {"list": (Outcome.SUCCEEDED, [1, 2, 3])})
        assert await catch_up(s) == 1
        assert await put_off(s, dag) == ["each"] * 3
        assert (await rig.run(partial(tell_runs, most=2), [run_id])).ends == 2
        assert (await s.tasks(dag, run_id))["each"] == "running"
        assert (await rig.run(partial(tell_runs, most=2), [run_id])).ends == 1
        assert await s.play(dag) == ["join"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_the_sweep_leaves_alone_what_is_to_be_told_and_tells_what_is_old(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND))
        run_id = await s.start(dag)
        await put_off(s, dag)
        await s.sweep_dags()
        assert await s.store.sweep_put_off(list(ALL)) == Resolved()
        assert (await s.run_state(run_id), await s.waiting()) == (("running", 4, 0, 0, 0), [])
        elsewhere = [partition for partition in ALL if partition != dag.job.partition]
        assert await rig.run(partial(sweep_put_off, age=timedelta(seconds=-1)), elsewhere) == Resolved()
        swept = await rig.run(partial(sweep_put_off, age=timedelta(seconds=-1)), list(ALL))
        assert swept.queued == {dag.job.partition}
        assert sorted(await s.play(dag)) == ["b", "c", "d"]
        assert await s.run_state(run_id) == ("succeeded", 0, 4, 0, 0)


@trio_test
async def test_a_cancelled_run_ends_when_it_is_told(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, {})])
        b, c = await s.claim_waiting()
        await s.store.settle([s.result(dag, b, {})], put_off=True)
        assert (await s.hand(cancel_run, run_id)).changed
        await s.store.settle([s.result(dag, c, dict.fromkeys("bc", Outcome.CANCELLED))], put_off=True)
        assert (await s.run_state(run_id))[:2] == ("cancelled", 1)
        assert await catch_up(s) == 1
        assert await s.run_state(run_id) == ("cancelled", 0, 2, 1, 1)
        assert (await s.fire_state(run_id), await s.waiting()) == ("cancelled", [])


@trio_test
async def test_what_nobody_begins_after_a_failure_that_was_put_off_is_recorded(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({**CHAIN, "x": (), "y": ("x",)}))
        run_id = await s.start(dag)
        claimed = {dag.keys[one.job_id]: one for one in await s.claim_waiting()}
        await s.store.settle([s.result(dag, claimed["a"], {"a": Outcome.FATAL})], put_off=True)
        await s.store.settle([s.result(dag, claimed["x"], {})])
        # The failure is told later, and so it comes later.
        assert await s.play(dag) == ["y"]
        assert await catch_up(s) == 1
        stands = await s.tasks(dag, run_id)
        assert (stands["b"], stands["c"], stands["y"]) == ("upstream_failed", "upstream_failed", "succeeded")
        assert await s.run_state(run_id) == ("failed", 0, 2, 1, 2)


@trio_test
async def test_a_run_that_ends_when_a_hand_tells_it_is_counted(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": ()}))
        run_id = await s.start(dag)
        await put_off(s, dag)
        done = await s.hand(cancel_run, run_id)
        assert (done.changed, [end.outcome for end in done.resolved.ends]) == (False, ["succeeded"])


@trio_test
async def test_hands_mean_what_people_see(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        await put_off(s, dag, {"a": Outcome.FATAL})
        assert (await s.hand(rerun, run_id)).changed
        assert await put_off(s, dag) == ["a"]
        with pytest.raises(ConflictError, match="'a' succeeded already"):
            await s.hand(skip_task, run_id, "a")
        assert await catch_up(s) == 1  # Refused: so it was not told by the hand.
        assert await put_off(s, dag, {"b": Outcome.FATAL}) == ["b"]
        assert (await s.hand(force_complete, run_id, "b")).changed
        assert await catch_up(s) == 0
        assert await s.play(dag) == ["c"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
@pytest.mark.parametrize("hand", [force_complete, skip_task])
async def test_a_task_that_ends_while_a_hand_reaches_for_it_is_told_once(
    rig: LoopRig, clock: MockClock | None, hand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end was put off after the hand had its run told: as if by a settling at the same moment."""
    monkeypatch.setattr(dag_hands, "tell_runs", lambda *_, **__: Told(0))
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND, policy="continue"))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, {})])
        b, c = await s.claim_waiting()
        await s.store.settle([s.result(dag, b, dict.fromkeys("bc", Outcome.FATAL))], put_off=True)
        assert (await s.hand(hand, run_id, dag.keys[b.job_id])).changed
        assert (await catch_up(s), await s.waiting()) == (0, [])
        await s.store.settle([s.result(dag, c, {})])
        assert await s.play(dag) == ["d"]
        assert (await s.run_state(run_id))[1:3] == (0, 4 if hand is force_complete else 3)


def again(conn: Connection[Any], run_id: bytes, change: Callable[[Resolution, Run], object]) -> None:
    runs = lock_runs(conn, [run_id])
    resolution = Resolution(conn, runs)
    change(resolution, runs[run_id])
    resolution.close()


@trio_test
@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FATAL])
@pytest.mark.parametrize(
    "change", [Resolution.recount, lambda resolution, run: resolution.requeue(run, "x"), Resolution.reopen]
)
async def test_a_run_counted_anew_counts_no_end_twice(
    rig: LoopRig, clock: MockClock | None, outcome: Outcome, change: Callable[[Resolution, Run], object]
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND, policy="continue"))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, {})])
        b, c = await s.claim_waiting()
        await s.store.settle([s.result(dag, b, dict.fromkeys("bc", outcome))], put_off=True)
        await rig.run(again, run_id, change)
        assert await s.run_state(run_id) == ("running", 3, 1, 0, 0)
        assert await catch_up(s) == 1
        assert await s.waiting() == []
        await s.store.settle([s.result(dag, c, {})])
        d_is_skipped = outcome is Outcome.FATAL
        assert await s.play(dag) == ([] if d_is_skipped else ["d"])
        totals = ("partial", 0, 2, 1, 1) if d_is_skipped else ("succeeded", 0, 4, 0, 0)
        assert await s.run_state(run_id) == totals


@trio_test
@pytest.mark.parametrize("seed", range(8))
async def test_put_off_or_not_a_run_comes_to_the_same(
    rig: LoopRig, clock: MockClock | None, seed: int
) -> None:
    """Random DAGs, ends and moments: one run is told at once, the other one now and then."""
    if seed > 1 and not isinstance(rig, MemoryLoopRig):
        pytest.skip("one seed or two show that the statements agree")
    chance = random.Random(seed)
    keys = [f"t{number}" for number in range(9)]
    parents = {
        key: tuple(chance.sample(keys[:at], chance.randrange(min(at, 3) + 1))) for at, key in enumerate(keys)
    }
    deeds = {key: Outcome.FATAL for key in keys if chance.random() < 0.2}
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(parents, policy="continue"))
        plain = await s.start(dag)
        await s.play(dag, deeds)
        late = await s.start(dag, 1)
        for _ in range(200):
            claimed = await s.claim_waiting()
            for one in claimed:
                await s.store.settle([s.result(dag, one, deeds)], put_off=chance.random() < 0.6)
            if chance.random() < 0.4 or not claimed:
                run_ids = await s.store.runs_put_off(FIRST)
                await rig.run(partial(tell_runs, most=chance.choice([1, 2, 500])), run_ids)
                if not run_ids and not claimed:
                    break
            await s.sweep_dags()
        assert await s.tasks(dag, late) == await s.tasks(dag, plain)
        assert await s.run_state(late) == await s.run_state(plain)
