"""The contract of the loop's store, as in test_loop_store.py. Here: jobs that must not overlap, and how
every way out of a run gives its slots back."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from psycopg import Connection
from trio.testing import MockClock, trio_test

from shardwheel.execution import Claimed
from shardwheel.store.arrays import Uuid
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import delete_job, edit_job, pause_job
from shardwheel.store.requests import cancel_execution, trigger_job
from shardwheel.store.settle import settle
from shardwheel.store.sql import sql
from shardwheel.store.task_types import pause_task, resume_task
from shardwheel.wire import Outcome
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import ALL, NOWHERE, Scene, fire_of, result_of, scene
from tests.contract.store_rig import PATIENCE_S

# --- overlap ------------------------------------------------------------------------------------------


@trio_test
async def test_a_job_that_skips_runs_one_at_a_time(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="skip")
        assert await s.claim_times(job, 0, 1) == [0]
        assert await s.claim_times(job, 2) == []
        assert await s.states() == [
            ("running", None, 1),
            ("skipped", "overlap", 1),
            ("skipped", "overlap", 1),
        ]
        assert await rig.slots() == (0, 1)


@trio_test
async def test_a_retry_of_a_job_that_skips_keeps_its_slot(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="skip")
        await s.store.settle([result_of(await s.running(job), Outcome.FAILED)])
        assert await rig.slots() == (0, 1)
        assert await s.claim_times(job, 1) == []
        (again,) = (await s.claim(fire_of(job, attempt=2))).claimed
        await s.store.settle([result_of(again)])
        assert await rig.slots() == (0, 0)
        assert await s.claim_times(job, 2) == [2]


@trio_test
async def test_a_job_that_queues_hands_its_slot_to_the_oldest(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="queue")
        first = await s.running(job, 5)
        await s.claim_times(job, 9)
        await s.claim_times(job, 7)
        await s.sweep_held()
        assert await s.reasons() == ["running", "overlap", "overlap"]
        await s.store.settle([result_of(first)])
        assert await s.reasons() == ["succeeded", "queued", "overlap"]
        assert await rig.slots() == (0, 1)
        assert await s.claim_times(job, 1) == []  # Older, but the slot is another's already.
        assert await s.claim_times(job, 7) == [7]
        assert await s.reasons() == ["overlap", "succeeded", "running", "overlap"]


@trio_test
async def test_two_claims_at_once_run_one_of_a_job(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="queue")
        ran: list[int] = []

        async def claim(at_ms: int) -> None:
            ran.extend(await s.claim_times(job, at_ms))

        async with trio.open_nursery() as nursery:
            for at_ms in range(4):
                nursery.start_soon(claim, at_ms)
        assert len(ran) == 1
        assert sorted(await s.reasons()) == ["overlap", "overlap", "overlap", "running"]


@trio_test
async def test_a_free_slot_that_nobody_was_given_is_found_by_the_sweep(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="queue")
        first = await s.running(job)
        await s.claim_times(job, 1)
        async with rig.long(look_at, fire_of(job, 1).execution_id):
            await s.store.settle([result_of(first)])
        assert await s.reasons() == ["succeeded", "overlap"]
        assert await rig.slots() == (0, 0)
        await s.sweep_held()
        assert await s.reasons() == ["succeeded", "queued"]
        assert await rig.slots() == (0, 1)


@trio_test
async def test_a_claim_waits_for_a_slot_that_is_just_given_back(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="queue")
        first = await s.running(job)
        ran: list[int] = []

        async def claim() -> None:
            ran.extend(await s.claim_times(job, 1))

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                async with rig.long(settle, [result_of(first)]):
                    nursery.start_soon(claim)
                    await rig.until_somebody_waits()
        assert ran == [1]


def look_at(conn: Connection[Any], execution_id: bytes) -> None:
    conn.execute(sql("lock_execution"), {"execution_id": Uuid(execution_id), "tenant_id": "t"})


# --- each way out -------------------------------------------------------------------------------------

WayOut = Callable[[Scene, JobRow, Claimed], Awaitable[None]]


async def by_success(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.store.settle([result_of(run)])


async def by_death(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.store.settle([result_of(run, Outcome.FATAL)])


async def by_cancelling_the_run(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.rig.run(cancel_execution, "t", run.execution_id)
    await s.store.settle([result_of(run, Outcome.CANCELLED)])


async def by_cancelling_its_retry(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.store.settle([result_of(run, Outcome.FAILED)])
    await s.rig.run(cancel_execution, "t", run.execution_id)


async def by_deleting_its_job(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.store.settle([result_of(run, Outcome.RELEASED)])
    await s.rig.run(delete_job, "t", job.job_id)
    await s.claim(fire_of(job, attempt=2))


async def by_deleting_its_job_while_it_is_held(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.store.settle([result_of(run, Outcome.RELEASED)])
    await s.rig.run(pause_job, "t", job.job_id)
    await s.claim(fire_of(job, attempt=2))
    await s.rig.run(delete_job, "t", job.job_id)


async def by_two_crashed_workers(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.rig.end_leases()
    await s.store.sweep_lost(list(ALL), NOWHERE)
    assert await s.rig.slots() == (0, 1)  # It is not over, but it does not run.
    await s.claim(fire_of(job, attempt=2))
    assert await s.rig.slots() == (1, 1)
    await s.rig.end_leases()
    await s.store.sweep_lost(list(ALL), NOWHERE)


async def by_hanging(s: Scene, job: JobRow, run: Claimed) -> None:
    await s.rig.hang()
    assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {"dead": 1}


WAYS_OUT: list[WayOut] = [
    by_success,
    by_death,
    by_cancelling_the_run,
    by_cancelling_its_retry,
    by_deleting_its_job,
    by_deleting_its_job_while_it_is_held,
    by_two_crashed_workers,
    by_hanging,
]


@pytest.mark.parametrize("way_out", WAYS_OUT, ids=lambda way_out: way_out.__name__)
@trio_test
async def test_every_way_out_gives_the_slots_back(
    rig: LoopRig, clock: MockClock | None, way_out: WayOut
) -> None:
    async with scene(rig) as s:
        await s.limit(max_running=2)
        job = await s.create(every="10s", overlap="queue", max_retries=0 if way_out is by_hanging else 3)
        run = await s.running(job)
        assert await rig.slots() == (1, 1)
        await way_out(s, job, run)
        assert await rig.slots() == (0, 0)
        assert await s.store.sweep_slots(list(ALL)) == 0


@trio_test
async def test_a_result_of_an_old_attempt_frees_nothing(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        await s.limit(max_running=2)
        job = await s.create(every="10s", overlap="queue")
        old = await s.running(job)
        await rig.end_leases()
        await s.store.sweep_lost(list(ALL), NOWHERE)
        await s.claim(fire_of(job, attempt=2))
        assert (await s.store.settle([result_of(old)])).stale == 1
        assert await rig.slots() == (1, 1)


@trio_test
async def test_what_is_held_keeps_its_jobs_slot_and_no_other(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        await s.limit(max_running=1)
        job, other = await s.create(every="10s", overlap="queue"), await s.create(every="10s")
        busy = await s.running(other)
        await s.claim_times(job, 1)
        await s.claim_times(job, 2)
        assert await rig.slots() == (1, 1)
        await s.store.settle([result_of(busy)])
        await s.sweep_held()
        assert await s.claim_times(job, 1) == [1]
        assert await rig.slots() == (1, 1)
        assert sorted(await s.reasons()) == ["overlap", "running", "succeeded"]


@trio_test
async def test_what_somebody_wishes_waits_for_its_turn_too(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="queue")
        first = await s.running(job)
        await rig.run(trigger_job, "t", job.job_id, uuid.uuid4().bytes)
        (wish,) = (await s.load()).waiting
        at_ms = wish.scheduled_ms - job.effective_from_ms
        fire = fire_of(job, at_ms, schedule_no=0, execution_id=wish.execution_id)
        assert (await s.claim(fire)).recorded == {("held", "overlap"): 1}
        await s.store.settle([result_of(first)])
        assert len((await s.claim(fire)).claimed) == 1


@trio_test
async def test_a_job_may_begin_to_overlap_again(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="queue")
        first = await s.running(job)
        await s.claim_times(job, 1, 2)
        job = await rig.run(edit_job, "t", job.job_id, {"overlap": "allow"})
        assert await s.claim_times(job, 3) == [3]
        await s.store.settle([result_of(first)])
        (second,) = (await s.claim(fire_of(job, 1))).claimed
        await s.store.settle([result_of(second)])
        assert await s.claim_times(job, 2) == [2]


@trio_test
async def test_a_pause_of_the_task_keeps_the_jobs_slot(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", overlap="queue")
        await s.store.settle([result_of(await s.running(job), Outcome.RELEASED)])
        await rig.run(pause_task, "t", "work", "ada")
        await s.claim(fire_of(job, attempt=2), fire_of(job, 1))
        assert await s.reasons() == ["task_paused", "task_paused"]
        await rig.run(resume_task, "t", "work")
        await s.sweep_held()
        assert await s.claim_times(job, 1) == []
        assert await s.reasons() == ["queued", "overlap"]
