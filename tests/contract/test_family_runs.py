"""The contract of jobs with parents, as they run: the root's run is theirs, on the twin and on PostgreSQL."""

from __future__ import annotations

import pytest
from trio.testing import MockClock, trio_test

from shardwheel.execution import FIRST_ENDING
from shardwheel.store.children import delete_child
from shardwheel.store.dag_hands import cancel_run, force_complete, rerun, skip_task
from shardwheel.store.dag_inputs import read_inputs
from shardwheel.store.dag_reading import read_run
from shardwheel.store.dependencies import add_dependency
from shardwheel.store.jobs import delete_job, edit_job, pause_job, resume_job
from shardwheel.store.requests import backfill_job, cancel_execution, trigger_job
from shardwheel.wire import FireKind, Outcome
from tests.contract.family_scene import DIAMOND, ROOT, family_scene
from tests.contract.loop_rig import LoopRig, MemoryLoopRig
from tests.contract.loop_scene import ALL, NOWHERE, fire_of

CHAIN = {"b": (ROOT,), "c": ("b",)}


@trio_test
async def test_a_diamond_under_a_job_runs_once_after_its_parents(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family(DIAMOND)
        root = await s.begin(family)
        assert root.dag_run_id == root.execution_id
        assert await s.waiting() == []
        await s.end(family, root, (Outcome.SUCCEEDED, {"rows": 7}))
        b, c = await s.claim_waiting()
        assert (b.scheduled_ms, b.dag_run_id) == (root.scheduled_ms, root.execution_id)
        assert (await rig.run(read_inputs, b.execution_id)).outputs == {ROOT: {"rows": 7}}
        await s.store.settle([s.result(family, one, {}) for one in (b, c)])
        assert await s.play(family) == ["d"]
        assert await s.run_state(root.execution_id) == ("succeeded", 0, 4, 0, 0)
        assert await s.fire_state(root.execution_id) == "succeeded"


@trio_test
async def test_each_time_of_the_root_is_a_run_and_a_repeated_fire_is_none(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        for at_ms in (0, 3_600_000):
            root = await s.begin(family, at_ms)
            assert (await s.claim(fire_of(await s.job(family.job.job_id), at_ms))).duplicates == 1
            await s.end(family, root)
            assert (await s.play(family), await s.waiting()) == (["b", "c"], [])


@trio_test
async def test_a_job_without_children_has_no_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family({})
        root = await s.begin(family)
        assert (root.dag_run_id, await s.has_run(root.execution_id)) == (b"", False)


@trio_test
async def test_retries_of_the_root_stay_in_its_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,)}, backoff={"base_s": 0})
        root = await s.begin(family)
        await s.end(family, root, Outcome.FAILED)
        assert await s.tasks(family, root.execution_id) == {ROOT: "retry_wait"}
        (again,) = await s.claim_waiting()
        assert (again.execution_id, again.attempt, again.dag_run_id) == (
            root.execution_id,
            2,
            root.execution_id,
        )
        await s.end(family, again)
        assert await s.play(family) == ["b"]
        assert await s.run_state(root.execution_id) == ("succeeded", 0, 2, 0, 0)


@trio_test
@pytest.mark.parametrize("way", ["dead", "cancelled", "lost", "forced", "skipped", "skipped_with_children"])
async def test_whichever_way_the_root_ends_its_children_learn_of_it(
    rig: LoopRig, clock: MockClock | None, way: str
) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,)})
        root = await s.begin(family)
        run_id = root.execution_id
        if way == "dead":
            await s.end(family, root, Outcome.FATAL)
        elif way == "cancelled":
            assert await rig.run(cancel_execution, "t", run_id) == "already_running"
            await s.end(family, root, Outcome.CANCELLED)
        elif way == "lost":
            for _ in range(2):
                await rig.end_leases()
                assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {}
                await s.sweep_dags()
                await s.claim(*[one for one in await s.waiting() if one.execution_id == run_id])
        elif way == "forced":
            await s.hand(force_complete, run_id, ROOT, {"by": "hand"})
            assert (await s.store.settle([s.result(family, root, {})])).stale == 1
        else:
            await s.hand(skip_task, run_id, ROOT, "run" if way == "skipped" else "skip")
        ends = {"forced": "queued", "skipped": "queued", "skipped_with_children": "upstream_skipped"}
        assert (await s.tasks(family, run_id))["b"] == ends.get(way, "upstream_failed")


@trio_test
async def test_a_dead_child_fails_what_waits_for_it_and_nobody_else(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,), "c": (ROOT,), "d": ("b",)})
        root = await s.begin(family)
        await s.end(family, root)
        await s.play(family, {"b": Outcome.FATAL})
        assert await s.tasks(family, root.execution_id) == {
            ROOT: "succeeded",
            "b": "dead",
            "c": "succeeded",
            "d": "upstream_failed",
        }
        assert await s.run_state(root.execution_id) == ("partial", 0, 2, 1, 1)
        await s.hand(rerun, root.execution_id)
        assert await s.play(family) == ["b", "d"]
        assert await s.run_state(root.execution_id) == ("succeeded", 0, 4, 0, 0)


@trio_test
async def test_a_rerun_of_a_dead_root_lets_its_children_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        root = await s.begin(family)
        await s.end(family, root, Outcome.FATAL)
        assert await s.run_state(root.execution_id) == ("failed", 0, 0, 1, 2)
        await s.hand(rerun, root.execution_id)
        assert await s.play(family) == [ROOT, "b", "c"]
        assert await s.run_state(root.execution_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_a_cancelled_run_queues_nobody(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        root = await s.begin(family)
        assert (await s.hand(cancel_run, root.execution_id)).changed
        settled = await s.store.settle([s.result(family, root, {})])
        assert [end.outcome for end in settled.resolved.ends] == ["cancelled"]
        assert await s.waiting() == []
        assert await s.run_state(root.execution_id) == ("cancelled", 0, 1, 0, 2)
        assert not (await s.hand(cancel_run, root.execution_id)).changed


@trio_test
async def test_a_trigger_and_a_backfill_begin_runs_too(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        await rig.run(trigger_job, "t", family.job.job_id, b"r" * 16)
        assert await s.play(family) == [ROOT, "b", "c"]
        first_ms = family.job.effective_from_ms - 7_200_000
        await rig.run(backfill_job, "t", family.job.job_id, b"q" * 16, first_ms, first_ms + 3_600_000)
        await s.store.expand_work(list(ALL), 100)
        ran = await s.play(family)
        assert sorted(ran) == sorted([ROOT, "b", "c"] * (len(ran) // 3))
        assert len(ran) >= 3


@trio_test
async def test_a_skipped_time_of_the_root_is_no_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        fire = fire_of(await s.job(family.job.job_id), kind=FireKind.SKIP, reason="misfire")
        await s.claim(fire)
        assert not await s.has_run(fire.execution_id)
        assert await s.waiting() == []


@trio_test
async def test_a_root_that_is_held_begins_its_run_when_it_runs(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN, overlap="queue")
        first = await s.begin(family)
        fire = fire_of(await s.job(family.job.job_id), 3_600_000)
        assert (await s.claim(fire)).recorded == {("held", "overlap"): 1}
        assert not await s.has_run(fire.execution_id)
        await s.end(family, first)
        assert sorted(await s.play(family)) == sorted([ROOT, "b", "c", "b", "c"])
        assert await s.run_state(fire.execution_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_pausing_the_root_holds_children_until_the_resume(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        root = await s.begin(family)
        await rig.run(pause_job, "t", family.job.job_id)
        await s.end(family, root)
        assert await s.play(family) == []
        assert await s.tasks(family, root.execution_id) == {ROOT: "succeeded", "b": "paused"}
        await s.release()
        assert await s.play(family) == []
        await rig.run(resume_job, "t", family.job.job_id)
        assert await s.play(family) == ["b", "c"]


@trio_test
async def test_a_retry_of_a_paused_root_is_held_though_it_was_triggered(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN, backoff={"base_s": 0})
        await rig.run(pause_job, "t", family.job.job_id)
        await rig.run(trigger_job, "t", family.job.job_id, b"r" * 16)
        (root,) = await s.claim_waiting()
        await s.end(family, root, Outcome.FAILED)
        assert await s.play(family) == []
        assert await s.tasks(family, root.execution_id) == {ROOT: "paused"}
        await rig.run(resume_job, "t", family.job.job_id)
        assert await s.play(family) == [ROOT, "b", "c"]


@trio_test
async def test_a_triggered_run_of_a_paused_root_runs(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        await rig.run(pause_job, "t", family.job.job_id)
        await rig.run(trigger_job, "t", family.job.job_id, b"r" * 16)
        assert await s.play(family) == [ROOT, "b", "c"]


@trio_test
async def test_deleting_the_root_skips_what_had_not_begun(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        root = await s.begin(family)
        await rig.run(delete_job, "t", family.job.job_id)
        await s.end(family, root)
        assert await s.play(family) == []
        await s.sweep_dags()
        assert await s.tasks(family, root.execution_id) == {
            ROOT: "succeeded",
            "b": "deleted",
            "c": "upstream_skipped",
        }
        assert {(await s.job(job_id)).state for job_id in family.tasks.values()} == {"deleted"}


@trio_test
async def test_a_retry_of_a_deleted_root_ends_its_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN, backoff={"base_s": 0})
        root = await s.begin(family)
        await s.end(family, root, Outcome.FAILED)
        await rig.run(delete_job, "t", family.job.job_id)
        assert await s.play(family) == []
        await s.sweep_dags()
        assert await s.tasks(family, root.execution_id) == {
            ROOT: "deleted",
            "b": "upstream_skipped",
            "c": "upstream_skipped",
        }
        assert (await s.run_state(root.execution_id))[:2] == ("failed", 0)


@trio_test
async def test_a_deleted_child_is_not_claimed_and_not_in_the_next_run(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,), "c": (ROOT,)})
        root = await s.begin(family)
        await s.end(family, root)
        await rig.run(delete_child, "t", family.tasks["b"])
        assert await s.play(family) == ["c"]
        await s.sweep_dags()
        assert await s.tasks(family, root.execution_id) == {
            ROOT: "succeeded",
            "b": "deleted",
            "c": "succeeded",
        }
        await s.end(family, await s.begin(family, 3_600_000))
        assert await s.play(family) == ["c"]
        await rig.run(delete_child, "t", family.tasks["c"])
        last = await s.begin(family, 7_200_000)
        assert (last.dag_run_id, (await s.job(family.job.job_id)).dag_id) == (b"", None)


@trio_test
async def test_a_run_keeps_the_edges_that_it_began_with(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,), "c": (ROOT,)})
        root = await s.begin(family)
        await rig.run(add_dependency, "t", family.tasks["c"], family.tasks["b"])
        late = await s.child(root.job_id, name="late")
        grown = family._replace(tasks=family.tasks | {"late": late})
        await s.end(family, root)
        assert len(await s.waiting()) == 2
        assert sorted(await s.play(grown)) == ["b", "c"]
        await s.end(family, await s.begin(family, 3_600_000))
        ran = await s.play(grown)
        assert (sorted(ran), ran[-1]) == (["b", "c", "late"], "c")


@trio_test
async def test_what_began_before_there_were_children_is_no_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family({}, backoff={"base_s": 0})
        root = await s.begin(family)
        await s.child(root.job_id)
        await s.end(family, root, Outcome.FAILED)
        (again,) = await s.claim_waiting()
        assert (again.attempt, again.dag_run_id) == (2, b"")
        await s.end(family, again)
        assert await s.waiting() == []
        assert not await s.has_run(root.execution_id)


@trio_test
async def test_an_edit_of_the_roots_schedule_keeps_its_children(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        await rig.run(edit_job, "t", family.job.job_id, {"every": "2h"})
        await s.end(family, await s.begin(family))
        assert await s.play(family) == ["b", "c"]


@trio_test
async def test_children_of_a_completed_job_finish_its_last_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN, every=None, run_at="2020-01-01T00:00:00Z")
        root = await s.begin(family)
        await s.end(family, root)
        job = await s.job(family.job.job_id)
        await rig.set_floor(job.partition, job.effective_from_ms + 1, job.effective_from_ms + 1)
        assert (await s.store.sweep_completed(list(ALL), FIRST_ENDING))[0] == 1
        assert await s.play(family) == ["b", "c"]


@trio_test
async def test_the_sweep_mends_a_run_of_a_job(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family(CHAIN)
        root = await s.begin(family)
        await s.end(family, root)
        await s.end_behind_their_backs(root.execution_id)
        assert await s.waiting() == []
        await s.sweep_dags()
        assert await s.play(family) == ["c"]
        assert await s.run_state(root.execution_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_a_run_of_a_job_is_shown_as_a_dags_is(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        if isinstance(rig, MemoryLoopRig):
            pytest.skip("people read from PostgreSQL")
        family = await s.family(CHAIN)
        root = await s.begin(family)
        shown = await rig.run(read_run, "t", root.execution_id)
        assert [(task["key"], task["state"], task["depends_on"]) for task in shown["tasks"]] == [
            (ROOT, "running", []),
            ("b", "pending", [ROOT]),
            ("c", "pending", ["b"]),
        ]
