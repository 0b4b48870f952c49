"""The contract of the loop's store, as in test_loop_store.py. Here: the feed, schedule changes, what people
ask for, and the floor."""

from __future__ import annotations

import uuid

import pytest
from trio.testing import MockClock, trio_test

from shardwheel.errors import ConflictError, UsageError
from shardwheel.posting import parse_posting
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, delete_job, edit_job, pause_job, resume_job
from shardwheel.store.requests import backfill_job, cancel_execution, trigger_job
from shardwheel.wire import FireKind
from tests.contract.loop_rig import LoopRig, Seen
from tests.contract.loop_scene import ALL, fire_of, scene
from tests.contract.store_rig import own

# --- the feed -----------------------------------------------------------------------------------------


@trio_test
async def test_the_feed_hands_out_each_change_once_however_late_it_commits(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        early = await s.create(every="10s")
        loaded = await s.load()
        assert [entry.job_id for entry in loaded.jobs] == [early.job_id]
        async with rig.long(create_jobs, "t", [parse_posting({"task": "work", "every": "1h"})]):
            later = await s.create(every="20s")
            during = await s.store.changes(list(ALL), loaded.snapshot)
            assert [entry.job_id for entry in during.jobs] == [later.job_id]
            assert during.horizon_xid <= later.schedule_xid
        after = await s.store.changes(list(ALL), during.snapshot)
        assert [entry.schedule for entry in after.jobs] == ['{"every_ms":3600000}']
        assert (await s.store.changes(list(ALL), after.snapshot)).jobs == []


@trio_test
async def test_what_waits_is_fed_and_when_overdue_fed_again(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        loaded = await s.load()
        run = await rig.run(trigger_job, "t", job.job_id, uuid.uuid4().bytes)
        fed = await s.store.changes(list(ALL), loaded.snapshot)
        assert [row.execution_id for row in fed.waiting] == [run]
        assert await s.store.sweep_overdue(list(ALL)) == 0
        await rig.make_overdue()
        assert (await s.store.changes(list(ALL), fed.snapshot)).waiting == []
        assert await s.store.sweep_overdue(list(ALL)) == 1
        again = await s.store.changes(list(ALL), fed.snapshot)
        assert [row.execution_id for row in again.waiting] == [run]


# --- what people say ----------------------------------------------------------------------------------


def times_of(job: JobRow, until_ms: int) -> list[int]:
    return list(job.timing.times_between(job.effective_from_ms - 1, until_ms - 1))


@trio_test
async def test_an_edit_queues_the_old_times_above_the_floor(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.aged(60_000, every="10s", misfire_grace_s=3600)
        times = times_of(job, job.effective_from_ms + 60_000)
        await rig.set_floor(job.partition, times[1], times[1])
        edited = await rig.run(edit_job, "t", job.job_id, {"every": "1h"})
        assert edited.schedule_no != job.schedule_no
        expected = [time for time in times[2:] if time < edited.effective_from_ms]
        assert await rig.executions() == [Seen(time, "queued", None, 1, "settled") for time in expected]


@trio_test
async def test_a_schedule_younger_than_the_floor_is_settled_from_its_beginning(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.aged(60_000, every="10s", jitter_s=3)
        taken = (await own(s.store, [job.partition], "a"))[job.partition]
        later = taken._replace(fired_through_ms=job.effective_from_ms + 3_600_000, horizon_xid=1)
        assert await s.store.store_floors([later._replace(kafka_generation="other")]) == 0
        elsewhere = later.identity._replace(timeline=later.identity.timeline + 1)
        assert await s.store.store_floors([later._replace(identity=elsewhere)]) == 0
        assert await s.store.store_floors([later]) == 1
        paused = await rig.run(pause_job, "t", job.job_id)
        expected = times_of(job, paused.effective_from_ms)
        assert await rig.executions() == [Seen(time, "skipped", "paused", 1, "settled") for time in expected]
        assert (await rig.run(pause_job, "t", job.job_id)).schedule_no == paused.schedule_no
        assert (await rig.run(resume_job, "t", job.job_id)).effective_from_ms >= paused.effective_from_ms


@trio_test
async def test_many_open_times_become_one_row_and_are_expanded(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.aged(1_500_000, every="1s", misfire="fire_all")
        edited = await rig.run(edit_job, "t", job.job_id, {"every": "1h"})
        count = len(times_of(job, edited.effective_from_ms))
        assert await rig.spans() == ([], [("settled", count)])
        assert await s.store.expand_work(list(ALL), 1_000) == 1_000
        assert await s.store.expand_work(list(ALL), 1_000) == count - 1_000
        assert await s.store.expand_work(list(ALL), 1_000) == 0
        assert [row.scheduled_ms for row in await rig.executions()] == times_of(job, edited.effective_from_ms)


@trio_test
async def test_a_backfill_fills_and_queues_skipped_ones_again(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.aged(60_000, every="10s")
        times = times_of(job, job.effective_from_ms + 60_000)[:4]
        at_ms = [time - job.effective_from_ms for time in times]
        await s.claim(fire_of(job, at_ms[0], kind=FireKind.SKIP, reason="misfire"), fire_of(job, at_ms[1]))
        await rig.run(backfill_job, "t", job.job_id, uuid.uuid4().bytes, times[0], times[3])
        assert await s.store.expand_work(list(ALL), 100) == 4
        assert [(row.state, row.origin) for row in await rig.executions()] == [
            ("queued", "backfill"),
            ("running", "schedule"),
            ("queued", "backfill"),
            ("queued", "backfill"),
        ]


@trio_test
async def test_max_runs_bounds_and_only_timing_makes_a_new_state(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", max_runs=3)
        assert len(times_of(job, job.effective_from_ms + 3_600_000)) == 3
        same = await rig.run(edit_job, "t", job.job_id, {"tags": ["a"], "timeout_s": 5})
        assert (same.schedule_no, same.effective_from_ms) == (job.schedule_no, job.effective_from_ms)
        assert (same.timeout_ms, same.version) == (5_000, job.version + 1)
        once = await s.create(delay="1h")
        with pytest.raises(UsageError, match="past"):
            await rig.run(edit_job, "t", once.job_id, {"run_at": "2026-01-01T00:00:00Z"})


@trio_test
async def test_triggers_and_cancels_tell_the_truth(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        request = uuid.uuid4().bytes
        run = await rig.run(trigger_job, "t", job.job_id, request)
        assert await rig.run(trigger_job, "t", job.job_id, request) == run
        assert await rig.run(cancel_execution, "t", run) == "cancelled"
        assert await rig.run(cancel_execution, "t", run) == "already_done"
        due_ms = job.timing.next_after(job.effective_from_ms)
        assert due_ms is not None
        ahead = fire_of(job, due_ms - job.effective_from_ms)
        assert await rig.run(cancel_execution, "t", ahead.execution_id, job.job_id) == "cancelled"
        assert (await s.claim(ahead)).duplicates == 1
        await rig.run(delete_job, "t", job.job_id)
        with pytest.raises(ConflictError):
            await rig.run(trigger_job, "t", job.job_id, uuid.uuid4().bytes)


@trio_test
async def test_a_floor_from_before_a_fail_over_is_refused_though_its_row_does_not_know_yet(
    rig: LoopRig, clock: MockClock | None
) -> None:
    """The row came back with the old timeline in it, and the claims that the floor vouches for are gone."""
    async with scene(rig) as s:
        taken = (await own(s.store, [5], "a"))[5]
        old = taken.identity._replace(timeline=taken.identity.timeline + 1)
        await rig.set_timeline(5, old.timeline)
        assert await s.store.store_floors([taken._replace(identity=old, fired_through_ms=9)]) == 0
        assert [state.floor_ms for state in await s.store.partitions([5])] == [0]
