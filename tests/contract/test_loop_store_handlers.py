"""The contract of the loop's store, as in test_loop_store.py. Here: what waits for a worker that has its
handler, what a tenant's budget of retries leaves, and what people see of a task type."""

from __future__ import annotations

import msgspec
import pytest
from trio.testing import MockClock, trio_test

from shardwheel.errors import NotFoundError
from shardwheel.limits import Tally, TaskName
from shardwheel.store.jobs import delete_job
from shardwheel.store.task_types import get_task, list_tasks, pause_task, resume_task
from shardwheel.wire import Outcome
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import ALL, NOWHERE, WORK, fire_of, scene, told


@trio_test
async def test_an_unknown_handler_waits_for_a_live_worker_of_its_pool(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.claim(fire_of(job), tasks=frozenset({"other"}))
        await s.announce("work", worker="elsewhere", pool="long")
        await s.announce("other", worker="without")
        await s.announce("work", worker="silent")
        await rig.silence_workers()
        await s.announce("work", worker="gone")
        await s.store.withdraw_worker("gone")
        await s.announce("work", worker="elsewhere", pool="long")
        await s.sweep_held()
        assert await s.reasons() == ["handler_unknown"]
        await s.announce("work", worker="silent")
        await s.sweep_held()
        assert await s.reasons() == ["queued"]


@trio_test
async def test_a_worker_without_the_handler_starves_none_that_has_it(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """Messages are dealt out by partition: let go, it would meet the wrong worker again and again."""
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.announce("other", worker="wrong")
        await s.announce("work", "other", worker="right")
        await s.claim(fire_of(job), tasks=frozenset({"other"}), worker="wrong")
        await s.sweep_held()
        assert await s.reasons() == ["handler_unknown"]
        assert await s.store.held_for_workers("short", {"other"}, 10) == []
        assert await s.store.held_for_workers("long", {"work"}, 10) == []
        ((fire, priority),) = await s.store.held_for_workers("short", {"other", "work"}, 10)
        assert (fire.execution_id, fire.attempt, priority) == (fire_of(job).execution_id, 1, 2)
        again = await s.claim(fire, tasks=frozenset({"other"}), worker="wrong")
        assert (again.claimed, again.recorded, again.duplicates) == ([], {}, 1)
        assert (await s.claim(msgspec.structs.replace(fire, attempt=2))).duplicates == 1
        (claimed,) = (await s.claim(fire, worker="right")).claimed
        assert (claimed.attempt, (await s.claim(fire, worker="right")).duplicates) == (1, 1)
        assert (await s.store.settle([told(claimed)])).by_state == {"succeeded": 1}


@trio_test
async def test_what_another_worker_fetches_obeys_every_limit(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.claim(fire_of(job), fire_of(job, 1), tasks=frozenset())
        fires = [fire for fire, _ in await s.store.held_for_workers("short", {"work"}, 10)]
        assert [fire.execution_id for fire in fires] == sorted(fire.execution_id for fire in fires)
        await rig.run(pause_task, "t", "work", "ada")
        await s.claim(fires[0])
        await rig.run(resume_task, "t", "work")
        await rig.run(delete_job, "t", job.job_id)
        assert (await s.claim(*fires)).claimed == []
        assert {state for state, *_ in await s.states()} == {"skipped"}


@trio_test
async def test_a_tenant_without_retries_left_gets_none(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.store.tally({TaskName("t", "other"): Tally(firsts=12, retries=23)}, 1)
        failed = [told(claimed, Outcome.FAILED) for claimed in (await s.claim(fire_of(job))).claimed]
        settled = await s.store.settle(failed)
        assert settled.by_state == {"retry_wait": 1}
        assert settled.tallies == {WORK: Tally(1, 1, 1, 1)}
        await s.store.tally({TaskName("t", "other"): Tally(retries=1)}, 2)
        await s.store.tally({TaskName("somebody else", "work"): Tally(firsts=1000)}, 2)
        failed = [told(claimed, Outcome.FAILED) for claimed in (await s.claim(fire_of(job, 1))).claimed]
        settled = await s.store.settle(failed)
        assert settled.tallies == {WORK: Tally(1, 1, 1, 0)}
        assert await s.states() == [("retry_wait", None, 2), ("dead", "retry_budget", 1)]


@trio_test
async def test_a_time_out_that_the_sweep_ends_counts_like_one_that_was_reported(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.running(job)
        await rig.overrun(by_s=20, heard_s_ago=2)
        swept = await s.store.sweep_lost(list(ALL), NOWHERE)
        assert (swept.by_state, swept.tallies) == ({"retry_wait": 1}, {WORK: Tally(1, 1, 1, 1)})
        await s.store.tally({TaskName("t", "other"): Tally(firsts=1, retries=22)}, 1)
        await s.running(job, 1)
        await rig.overrun(by_s=20, heard_s_ago=2)
        swept = await s.store.sweep_lost(list(ALL), NOWHERE)
        assert (swept.by_state, swept.tallies) == ({"dead": 1}, {WORK: Tally(1, 1, 1, 0)})
        assert await s.states() == [("retry_wait", None, 2), ("dead", "retry_budget", 1)]
        await s.running(job, 2)
        await rig.end_leases()
        swept = await s.store.sweep_lost(list(ALL), NOWHERE)
        assert (swept.by_state, swept.tallies) == ({"queued": 1}, {})  # A lost worker is no run that failed.


@trio_test
async def test_people_see_each_task_with_its_limits(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        with pytest.raises(NotFoundError):
            await rig.run(get_task, "t", "nothing")
        assert [(one.task, one.max_running) for one in await rig.run(list_tasks, "t")] == [("work", None)]
        limited = await s.limit(max_running=3, rate="60/min")
        assert (limited.max_running, limited.rate_per_s, limited.burst) == (3, 1.0, 2)
        assert (limited.slots_taken, limited.breaker) == (0, True)
        await rig.let_tokens_come(10)
        assert await s.claim_times(job, 0, 1, 2) == [0, 1]
        shown = await rig.run(get_task, "t", "work")
        assert (shown.slots_taken, shown.held) == (2, 1)
