"""The contract of the loop's store, as in test_loop_store.py. Here: what a task type or a job holds, and what
lets it go on: pauses, limits, rates and breakers."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.execution import FIRST_PAGES, ClaimReply
from shardwheel.limits import Tally
from shardwheel.store.held import skip_held, sweep_held
from shardwheel.store.jobs import delete_job, edit_job, pause_job, resume_job
from shardwheel.store.task_types import get_task, pause_task, resume_task
from shardwheel.wire import Outcome
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import ALL, WORK, Scene, fire_of, result_of, scene, told
from tests.contract.store_rig import PATIENCE_S


async def tell(s: Scene, *, well: int = 0, badly: int = 0) -> None:
    """So many runs ended well or badly."""
    await s.store.tally({WORK: Tally(well + badly, badly, well + badly, 0)}, 7)


# --- pauses -------------------------------------------------------------------------------------------


@trio_test
async def test_a_paused_task_is_held_and_goes_on_when_resumed(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job, other = await s.create(every="10s"), await s.create(every="10s", task="other")
        shown = await rig.run(pause_task, "t", "work", "ada")
        assert (shown.paused, shown.held) == (True, 0)
        reply = await s.claim(fire_of(job), fire_of(other), tasks=frozenset({"work", "other"}))
        assert [claimed.task for claimed in reply.claimed] == ["other"]
        assert reply.recorded == {("held", "task_paused"): 1}
        await s.sweep_held()
        assert (await rig.run(get_task, "t", "work")).held == 1
        await rig.run(resume_task, "t", "work")
        await s.sweep_held()
        assert await s.claim_times(job, 0) == [0]


@trio_test
async def test_a_claim_waits_for_a_pause_of_its_task_and_obeys_it(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await rig.run(resume_task, "t", "work")
        replies: list[ClaimReply] = []

        async def claim() -> None:
            replies.append(await s.claim(fire_of(job)))

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                async with rig.long(pause_task, "t", "work", "ada"):
                    nursery.start_soon(claim)
                    await rig.until_somebody_waits()
        assert replies[0].recorded == {("held", "task_paused"): 1}


@trio_test
async def test_of_many_tasks_a_sweep_looks_at_a_page(rig: LoopRig, clock: MockClock | None) -> None:
    """Whoever holds much, or has many tasks, keeps nobody else's from being looked at."""
    async with scene(rig) as s:
        for task in ("a", "b", "c"):
            await rig.run(pause_task, "t", task, "ada")
            await s.claim(fire_of(await s.create(every="10s", task=task)), tasks=frozenset({task}))
        await rig.run(resume_task, "t", "c")
        pages, looks = FIRST_PAGES, 0
        while await s.reasons() == ["task_paused"] * 3:
            pages = await rig.run(partial(sweep_held, task_page=1), list(ALL), pages)
            looks += 1
        assert (sorted(await s.reasons()), looks) == (["queued", "task_paused", "task_paused"], 3)


@trio_test
async def test_what_a_task_held_of_a_job_goes_on_when_it_gets_another(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await rig.run(pause_task, "t", "work", "ada")
        await s.claim(fire_of(job))
        assert await s.reasons() == ["task_paused"]
        await rig.run(edit_job, "t", job.job_id, {"task": "other"})
        assert await s.reasons() == ["queued"]


@trio_test
async def test_a_resumed_job_lets_go_what_was_held_for_it(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.store.settle([result_of(await s.running(job), Outcome.RELEASED)])
        await rig.run(pause_job, "t", job.job_id)
        await s.claim(fire_of(job, attempt=2))
        assert await s.reasons() == ["paused"]
        await rig.run(resume_job, "t", job.job_id)
        assert await s.reasons() == ["queued"]


@trio_test
async def test_of_many_jobs_a_sweep_looks_at_a_page(
    rig: LoopRig, clock: MockClock | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardwheel.store.held.PAGE", 2)
    async with scene(rig) as s:
        jobs = [await s.create(every="10s") for _ in range(5)]
        for job in jobs:
            await s.store.settle([result_of(await s.running(job), Outcome.RELEASED)])
            await rig.run(pause_job, "t", job.job_id)
        await s.claim(*(fire_of(job, attempt=2) for job in jobs))
        pages, seen = FIRST_PAGES, []
        for _ in range(4):
            pages = await s.store.sweep_held(list(ALL), pages)
            seen.append(pages.paused)
        assert len(set(seen)) == 4
        assert seen[-1] == FIRST_PAGES.paused
        assert seen[:-1] == sorted(seen[:-1])
        await rig.run(delete_job, "t", jobs[0].job_id)
        assert sorted(await s.reasons()) == [*["paused"] * 4, "skipped"]


@trio_test
async def test_of_a_deleted_job_everything_that_is_held_ends(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job, other = await s.create(every="10s"), await s.create(every="10s")
        await rig.run(pause_task, "t", "work", "ada")
        await s.claim(*(fire_of(job, at) for at in range(7)), fire_of(other))
        await rig.run(partial(skip_held, most=3), job.job_id)  # As deleting it does, of a thousand.
        assert (await s.reasons()).count("skipped") == 3
        for left in (2, 1, 1):
            await rig.run(partial(sweep_held, most=3), list(ALL), FIRST_PAGES)
            assert (await s.reasons()).count("task_paused") == left


# --- how many at once, how many a second --------------------------------------------------------------


@trio_test
async def test_no_more_run_than_may_and_the_oldest_goes_on_first(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.limit(max_running=2)
        first, second = (await s.claim(*(fire_of(job, at_ms) for at_ms in range(5)))).claimed
        assert await s.reasons() == ["running", "running", "concurrency", "concurrency", "concurrency"]
        assert await rig.slots() == (2, 0)
        await s.sweep_held()
        assert "queued" not in await s.reasons()
        await s.store.settle([result_of(second)])
        await s.sweep_held()
        assert await s.reasons() == ["running", "succeeded", "queued", "concurrency", "concurrency"]
        await s.limit(max_running=0)
        await s.sweep_held()
        assert await s.reasons() == ["running", "succeeded", "queued", "queued", "queued"]
        assert await s.claim_times(job, 2, 3, 4) == [2, 3, 4]
        await s.store.settle([result_of(first)])
        assert await rig.slots() == (0, 0)


@trio_test
async def test_two_claims_at_once_share_the_slots(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.limit(max_running=3)
        ran: list[int] = []

        async def claim(first: int) -> None:
            ran.extend(await s.claim_times(job, *range(first, first + 4)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(claim, 0)
            nursery.start_soon(claim, 10)
        assert len(ran) == 3
        assert await rig.slots() == (3, 0)


@trio_test
async def test_a_rate_is_one_budget_for_all_workers(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.limit(rate="1/h")
        assert await s.claim_times(job, 0) == []
        await rig.let_tokens_come(100 * 3600)
        assert await s.claim_times(job, 1, 2, worker="v") == [1]
        assert await s.claim_times(job, 3, worker="w") == []
        assert await s.reasons() == ["rate_limit", "running", "rate_limit", "rate_limit"]
        await s.sweep_held()  # As many as come until the next sweep, which rounds up to one.
        assert await s.reasons() == ["queued", "running", "rate_limit", "rate_limit"]
        assert await s.claim_times(job, 0) == []
        await rig.let_tokens_come(3600)
        assert await s.claim_times(job, 4) == [4]
        await s.limit(rate="none")
        await s.sweep_held()
        assert await s.reasons() == ["queued", "running", "queued", "queued", "running"]


@trio_test
async def test_both_limits_hold_at_the_same_time(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.limit(rate="1/s", max_running=4)
        await rig.let_tokens_come(100)
        assert await s.claim_times(job, 0, 1, 2) == [0, 1]
        assert await rig.slots() == (2, 0)
        await s.limit(max_running=2)
        await rig.let_tokens_come(100)
        assert await s.claim_times(job, 3) == []
        assert (await s.reasons())[2:] == ["rate_limit", "concurrency"]


# --- the breaker --------------------------------------------------------------------------------------


@trio_test
async def test_half_of_twenty_failed_runs_open_a_breaker(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await tell(s, badly=19)
        assert await s.claim_times(job, 0) == [0]
        await tell(s, well=20)
        await tell(s, well=1)
        assert await s.claim_times(job, 1) == [1]
        await tell(s, badly=2)
        assert await s.claim_times(job, 2) == []
        assert (await rig.run(get_task, "t", "work")).breaker_open_until_ms is not None
        await s.sweep_held()
        assert await s.reasons() == ["running", "running", "breaker_open"]


@trio_test
async def test_one_probe_closes_a_breaker_when_it_ends_well(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await tell(s, badly=20)
        await s.claim_times(job, 0, 1, 2)
        await rig.wait_out_breakers()
        await s.sweep_held()
        assert await s.reasons() == ["queued", "breaker_open", "breaker_open"]
        probe = await s.running(job)
        assert await s.claim_times(job, 3) == []
        await s.sweep_held()
        assert await s.reasons() == ["running", "breaker_open", "breaker_open", "breaker_open"]
        await s.store.tally((await s.store.settle([told(probe)])).tallies, 7)
        await s.sweep_held()
        assert await s.reasons() == ["succeeded", "queued", "queued", "queued"]
        await tell(s, badly=20)  # In the span of time in which it was closed.
        assert await s.claim_times(job, 1, 2, 3) == [1, 2, 3]
        assert await rig.slots() == (0, 0)


@trio_test
async def test_a_failed_probe_opens_a_breaker_again(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await tell(s, badly=20)
        await rig.wait_out_breakers()
        probe = await s.running(job)
        await s.store.tally((await s.store.settle([told(probe, Outcome.FAILED)])).tallies, 7)
        assert await s.claim_times(job, 1) == []
        assert await rig.slots() == (0, 0)
        await s.limit(breaker=False)
        await s.sweep_held()
        await tell(s, badly=20)
        assert await s.claim_times(job, 1, 2) == [1, 2]


@trio_test
async def test_a_probe_counts_among_those_that_may_run_at_once(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.limit(max_running=1)
        before = await s.running(job)
        await tell(s, badly=20)
        await rig.wait_out_breakers()
        assert await s.claim_times(job, 1) == []
        await s.store.settle([result_of(before, Outcome.RELEASED)])
        assert await s.claim_times(job, 2) == [2]
        await tell(s, well=1)
        assert await s.claim_times(job, 3) == []
        assert (await s.reasons())[1:] == ["concurrency", "running", "concurrency"]
