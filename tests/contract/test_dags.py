"""The contract of DAG runs on the twin in memory and on a real PostgreSQL: readiness, policies, fan-outs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from trio.testing import MockClock, trio_test

from shardwheel.execution import FIRST_ENDING, RunEnd
from shardwheel.store.dag_hands import rerun
from shardwheel.store.dag_inputs import read_inputs
from shardwheel.store.jobs import delete_job, pause_job, resume_job
from shardwheel.store.requests import cancel_execution, trigger_job
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Shape, dag_scene
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import ALL, NOWHERE, fire_of

DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
TWO_LEGS = {"a": (), "b": ("a",), "x": (), "y": ("x",)}
FAN = {"list": (), "each": ("list",), "join": ("each",)}


# --- readiness ----------------------------------------------------------------------------------------


@trio_test
async def test_a_diamond_runs_each_task_once_after_its_parents(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND))
        run_id = await s.start(dag)
        assert await s.fire_state(run_id) == "running"
        ran = await s.play(dag)
        assert (ran[0], sorted(ran[1:3]), ran[3:]) == ("a", ["b", "c"], ["d"])
        assert await s.run_state(run_id) == ("succeeded", 0, 4, 0, 0)
        assert await s.fire_state(run_id) == "succeeded"


@trio_test
async def test_a_repeated_fire_makes_no_second_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND))
        await s.start(dag)
        assert (await s.claim(fire_of(dag.job))).duplicates == 1
        assert len(await s.waiting()) == 1


@trio_test
async def test_parents_that_end_one_after_the_other_join(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND))
        run_id = await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a, {})])
        b, c = await s.claim_waiting()
        settled = await s.store.settle([s.result(dag, b, {})])
        assert (settled.resolved.queued, await s.waiting()) == (frozenset(), [])
        settled = await s.store.settle([s.result(dag, c, {}), s.result(dag, b, {})])
        assert (settled.resolved.queued, settled.stale) == (frozenset({dag.job.partition}), 1)
        assert await s.play(dag) == ["d"]
        assert (await s.run_state(run_id))[0] == "succeeded"


@trio_test
async def test_a_result_that_does_not_name_its_run_goes_on_all_the_same(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """As a worker of the version before would tell it."""
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}))
        await s.start(dag)
        (a,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, a._replace(dag_run_id=b""), {})])
        assert await s.play(dag) == ["b"]


# --- policies -----------------------------------------------------------------------------------------


@trio_test
async def test_fail_fast_records_everything_that_had_not_begun(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(TWO_LEGS))
        run_id = await s.start(dag)
        claimed = {dag.keys[one.job_id]: one for one in await s.claim_waiting()}
        await s.store.settle([s.result(dag, claimed["a"], {"a": Outcome.FATAL})])
        assert await s.tasks(dag, run_id) == {
            "a": "dead",
            "b": "upstream_failed",
            "x": "running",
            "y": "run_failed",
        }
        assert (await s.run_state(run_id))[0] == "running"
        settled = await s.store.settle([s.result(dag, claimed["x"], {})])
        assert [end.outcome for end in settled.resolved.ends] == ["failed"]
        assert await s.run_state(run_id) == ("failed", 0, 1, 1, 2)
        assert await s.fire_state(run_id) == "dead"
        assert await s.play(dag) == []


@trio_test
async def test_continue_lets_the_other_branches_go_on(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(TWO_LEGS, policy="continue"))
        run_id = await s.start(dag)
        assert sorted(await s.play(dag, {"a": Outcome.FATAL})) == ["a", "x", "y"]
        assert (await s.tasks(dag, run_id))["b"] == "upstream_failed"
        assert await s.run_state(run_id) == ("partial", 0, 2, 1, 1)
        assert await s.fire_state(run_id) == "succeeded"


@trio_test
async def test_retry_runs_dead_tasks_again_and_what_waited_for_them(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(DIAMOND, policy="retry"), max_retries=1)
        run_id = await s.start(dag)
        claimed = await s.claim_waiting()
        await s.store.settle([s.result(dag, claimed[0], {"a": Outcome.FATAL})])
        assert await s.run_state(run_id) == ("running", 4, 0, 0, 0)
        assert (await s.play(dag, {"b": Outcome.FATAL}))[:1] == ["a"]
        assert await s.run_state(run_id) == ("partial", 0, 2, 1, 1)
        assert await s.tasks(dag, run_id) == {
            "a": "succeeded",
            "b": "dead",
            "c": "succeeded",
            "d": "upstream_failed",
        }


@trio_test
async def test_a_run_that_takes_too_long_is_told_so(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": ()}, sla_ms=60_000))
        ends: list[RunEnd] = []
        for at_ms in (0, -3_600_000):
            await s.start(dag, at_ms)
            claimed = await s.claim_waiting()
            ends += (await s.store.settle([s.result(dag, one, {}) for one in claimed])).resolved.ends
        assert [end.in_time for end in ends] == [True, False]


# --- fan-outs -----------------------------------------------------------------------------------------


@trio_test
async def test_a_fan_out_runs_once_per_item_and_joins(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        run_id = await s.start(dag)
        (first,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, ["x", {"y": 1}, 3])})])
        items = sorted(await s.claim_waiting(), key=lambda one: one.params)
        params = [msgspec.json.decode(one.params) for one in items]
        assert {str(one["item"]) for one in params} == {"x", "{'y': 1}", "3"}
        assert {one["key"] for one in params} == {"each"}
        results = [
            s.result(dag, one, {"each": (Outcome.SUCCEEDED, number)}) for number, one in enumerate(items)
        ]
        await s.store.settle(results[:2])
        assert await s.waiting() == []
        await s.store.settle(results[2:])
        (join,) = await s.claim_waiting()
        inputs = await rig.run(read_inputs, join.execution_id)
        assert (sorted(inputs.outputs["each"]), inputs.skipped_parents) == ([0, 1, 2], [])
        await s.store.settle([s.result(dag, join, {})])
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_an_empty_list_is_over_at_once(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        await s.start(dag)
        assert await s.play(dag, {"list": (Outcome.SUCCEEDED, [])}) == ["list", "join"]


@trio_test
@pytest.mark.parametrize(
    "output", [None, {"no": "list"}, 7, {"count": -1}, {"count": True}, {"count": 1.5}, {"count": 1, "of": 2}]
)
async def test_what_is_no_list_kills_the_fan_out(
    rig: LoopRig, clock: MockClock | None, output: object
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        run_id = await s.start(dag)
        assert await s.play(dag, {"list": (Outcome.SUCCEEDED, output)}) == ["list"]
        assert await s.tasks(dag, run_id) == {"list": "succeeded", "each": "dead", "join": "upstream_failed"}
        assert (await s.run_state(run_id))[0] == "failed"


@trio_test
@pytest.mark.parametrize("output", [[0] * 10_001, {"count": 10_001}, {"count": 10**30}])
async def test_what_is_too_long_kills_the_fan_out(
    rig: LoopRig, clock: MockClock | None, output: object
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"list": (), "each": ("list",)}, frozenset({"each"})))
        run_id = await s.start(dag)
        assert await s.play(dag, {"list": (Outcome.SUCCEEDED, output)}) == ["list"]
        assert await s.tasks(dag, run_id) == {"list": "succeeded", "each": "dead"}


@trio_test
@pytest.mark.parametrize("count", [0, 3])
async def test_a_count_stands_for_a_list_of_numbers(
    rig: LoopRig, clock: MockClock | None, count: int
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        await s.start(dag)
        (first,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, {"count": count})})])
        items = await s.claim_waiting() if count else []
        found = [msgspec.json.decode(one.params) for one in items]
        assert sorted(one["item"] for one in found) == list(range(count))
        await s.store.settle([s.result(dag, one, {}) for one in items])
        assert await s.play(dag) == ["join"]


@trio_test
async def test_what_is_no_list_ends_a_run_whose_failed_tasks_are_tried_again(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """Each round is over at once, so nothing of the run would ever be under way again."""
    async with dag_scene(rig) as s:
        shape = Shape({"a": (), "b": ("a",)}, frozenset({"b"}), policy="retry")
        dag = await s.plant(shape, max_retries=2)
        run_id = await s.start(dag)
        await s.play(dag, {"a": (Outcome.SUCCEEDED, 5)})
        assert await s.run_state(run_id) == ("partial", 0, 1, 1, 0)
        assert await s.fire_state(run_id) == "succeeded"


@trio_test
async def test_one_failed_item_fails_the_fan_out(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"}), policy="continue"))
        run_id = await s.start(dag)
        (first,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, [1, 2])})])
        good, bad = await s.claim_waiting()
        await s.store.settle([s.result(dag, bad, {"each": Outcome.FATAL}), s.result(dag, good, {})])
        tasks = await s.tasks(dag, run_id)
        assert (tasks["each"], tasks["join"]) == ("dead", "upstream_failed")
        assert await s.run_state(run_id) == ("partial", 0, 1, 1, 1)


# --- ends by other ways -------------------------------------------------------------------------------


@trio_test
async def test_a_cancelled_task_fails_what_follows(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}))
        run_id = await s.start(dag)
        (fire,) = await s.waiting()
        assert await rig.run(cancel_execution, "t", fire.execution_id) == "cancelled"
        assert await s.tasks(dag, run_id) == {"a": "cancelled", "b": "upstream_failed"}
        assert (await s.run_state(run_id))[0] == "failed"


@trio_test
async def test_an_expired_task_skips_what_follows(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}), task_fields={"not_after_s": 60})
        run_id = await s.start(dag)
        fires = await s.waiting()
        await rig.make_overdue()
        assert (await s.claim(*fires)).recorded == {("held", "expired"): 1}
        await s.sweep_dags()
        assert await s.tasks(dag, run_id) == {"a": "expired", "b": "upstream_skipped"}
        assert await s.run_state(run_id) == ("failed", 0, 0, 0, 2)


@trio_test
async def test_a_lost_worker_costs_an_attempt_and_then_the_task(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}))
        run_id = await s.start(dag)
        for _ in range(2):
            assert len(await s.claim_waiting()) == 1
            await rig.end_leases()
            assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {}
            await s.sweep_dags()
        assert await s.tasks(dag, run_id) == {"a": "dead", "b": "upstream_failed"}
        assert (await s.run_state(run_id))[0] == "failed"


@trio_test
async def test_pausing_a_dag_holds_its_tasks_until_the_resume(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}))
        run_id = await s.start(dag)
        await rig.run(pause_job, "t", dag.job.job_id)
        assert await s.play(dag) == []
        assert await s.tasks(dag, run_id) == {"a": "paused"}
        await s.release()
        assert await s.play(dag) == []
        await rig.run(resume_job, "t", dag.job.job_id)
        assert await s.play(dag) == ["a", "b"]


@trio_test
async def test_a_triggered_run_of_a_paused_dag_runs(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}))
        await rig.run(pause_job, "t", dag.job.job_id)
        await rig.run(trigger_job, "t", dag.job.job_id, b"r" * 16)
        await s.claim(*await s.waiting())
        assert await s.play(dag) == ["a", "b"]


@trio_test
async def test_what_a_trigger_gives_goes_over_the_params_of_every_task_of_its_run(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        shape = Shape({"list": (), "each": ("list",), "join": ("each",)}, frozenset({"each"}))
        dag = await s.plant(shape, {"params": {"day": 1, "to": "x"}})
        given = {"day": 2, "more": [3]}
        run_id = await rig.run(trigger_job, "t", dag.job.job_id, b"r" * 16, given)
        await s.claim(*await s.waiting())
        seen: list[tuple[str, Any]] = []
        while claimed := await s.claim_waiting():
            seen += [(dag.keys[one.job_id], msgspec.json.decode(one.params)) for one in claimed]
            deeds = {"list": (Outcome.SUCCEEDED, ["a", "b"])}
            await s.store.settle([s.result(dag, one, deeds) for one in claimed])
        whole = {"day": 2, "to": "x", "more": [3]}
        items = [("each", whole | {"item": item}) for item in ("a", "b")]
        assert (seen[0], seen[-1], len(seen)) == (("list", whole), ("join", whole), 4)
        assert all(one in seen[1:3] for one in items)
        await s.start(dag)  # One that is not triggered has its own.
        (first,) = await s.claim_waiting()
        assert msgspec.json.decode(first.params) == {"day": 1, "to": "x"}
        assert (await s.run_state(run_id))[0] == "succeeded"


@trio_test
async def test_what_a_trigger_gave_is_kept_by_a_rerun(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}, policy="continue"))
        run_id = await rig.run(trigger_job, "t", dag.job.job_id, b"r" * 16, {"day": 2})
        await s.claim(*await s.waiting())
        assert await s.play(dag, {"a": Outcome.FATAL}) == ["a"]
        await s.hand(rerun, run_id)
        for key in ("a", "b"):
            (again,) = await s.claim_waiting()
            assert (dag.keys[again.job_id], msgspec.json.decode(again.params)) == (
                key,
                {"key": key, "day": 2},
            )
            await s.store.settle([s.result(dag, again, {})])


@trio_test
async def test_deleting_a_dag_skips_what_had_not_begun(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": (), "b": ("a",)}))
        run_id = await s.start(dag)
        await rig.run(delete_job, "t", dag.job.job_id)
        assert await s.play(dag) == []
        await s.sweep_dags()
        assert await s.tasks(dag, run_id) == {"a": "deleted", "b": "upstream_skipped"}
        assert await s.fire_state(run_id) == "dead"


@trio_test
async def test_a_dag_that_may_not_overlap_waits_for_its_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": ()}), overlap="queue")
        await s.start(dag)
        second = await s.start(dag, 3_600_000)
        assert await s.fire_state(second) == "held"
        assert await s.play(dag) == ["a"]
        assert await s.fire_state(second) == "running"
        assert await s.play(dag) == ["a"]


@trio_test
async def test_a_dag_is_completed_when_its_last_run_is_over(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({"a": ()}), every=None, run_at="2020-01-01T00:00:00Z")
        await s.start(dag)
        await rig.set_floor(dag.job.partition, dag.job.effective_from_ms + 1, dag.job.effective_from_ms + 1)
        assert (await s.store.sweep_completed(list(ALL), FIRST_ENDING))[0] == 0
        await s.play(dag)
        assert (await s.store.sweep_completed(list(ALL), FIRST_ENDING))[0] == 1
        assert (await s.job(dag.job.job_id)).state == "completed"


@trio_test
async def test_the_sweep_finds_a_run_that_was_forgotten(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape({**FAN, "last": ("join",)}, frozenset({"each"})))
        run_id = await s.start(dag)
        (first,) = await s.claim_waiting()
        await s.store.settle([s.result(dag, first, {"list": (Outcome.SUCCEEDED, [1, 2])})])
        await s.end_behind_their_backs(run_id)
        assert await s.waiting() == []
        await s.sweep_dags()
        assert await s.play(dag) == ["join", "last"]
        assert await s.run_state(run_id) == ("succeeded", 0, 4, 0, 0)
