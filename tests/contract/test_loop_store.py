"""The contract of the loop's store on the twin in memory and on a real PostgreSQL: the simulation is worth as
much as these two agree. Here: the claim, results, the sweep."""

from __future__ import annotations

import uuid
from typing import Any

import trio
from trio.testing import MockClock, trio_test

from shardwheel.execution import FIRST_ENDING, ClaimReply, Held, ResultsStand
from shardwheel.store.jobs import delete_job, edit_job, pause_job
from shardwheel.store.requests import cancel_execution, trigger_job
from shardwheel.wire import FireKind, Outcome
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import ALL, NOWHERE, fire_of, result_of, scene
from tests.contract.store_rig import PATIENCE_S

# --- the claim ----------------------------------------------------------------------------------------


@trio_test
async def test_a_fire_of_the_present_schedule_runs_once(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", params={"x": 1})
        token, fire = uuid.uuid4().bytes, fire_of(job)
        reply = await s.claim(fire, fire, token=token)
        (claimed,) = reply.claimed
        assert (claimed.execution_id, claimed.task, claimed.attempt) == (fire.execution_id, "work", 1)
        again = await s.claim(fire)
        assert (again.claimed, again.duplicates) == ([], 1)
        assert await s.store.claimed_by([fire], token) == reply.claimed
        assert await s.store.claimed_by([fire], uuid.uuid4().bytes) == []


@trio_test
async def test_only_the_present_schedule_number_inserts(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        stale = fire_of(job, schedule_no=12345)
        assert (await s.claim(stale)).duplicates == 1
        assert await s.states() == []
        assert len((await s.claim(stale, fire_of(job))).claimed) == 1


@trio_test
async def test_a_waiting_row_is_taken_by_its_attempt_whatever_the_number(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.store.settle([result_of(await s.running(job), Outcome.RELEASED)])
        assert (await s.claim(fire_of(job))).claimed == []
        (claimed,) = (await s.claim(fire_of(job), fire_of(job, attempt=2, schedule_no=0))).claimed
        assert claimed.attempt == 2


@trio_test
async def test_a_skip_only_inserts_and_gives_way_to_a_fire(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        skip: dict[str, Any] = {"kind": FireKind.SKIP, "reason": "misfire"}
        assert len((await s.claim(fire_of(job, **skip), fire_of(job))).claimed) == 1
        assert (await s.claim(fire_of(job, 1, **skip))).recorded == {("skipped", "misfire"): 1}
        assert (await s.claim(fire_of(job, **skip), fire_of(job, 1))).duplicates == 2
        assert await s.states() == [("running", None, 1), ("skipped", "misfire", 1)]


@trio_test
async def test_ranges_are_written_once_by_the_schedule_in_force(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        until_ms = job.effective_from_ms + 99_000
        skip = fire_of(job, kind=FireKind.SKIP_RANGE, until_ms=until_ms, count=10, reason="misfire")
        work = fire_of(job, kind=FireKind.CATCH_UP_RANGE, until_ms=until_ms, count=10)
        stale = fire_of(job, 1, kind=FireKind.SKIP_RANGE, until_ms=until_ms, count=9, schedule_no=5)
        assert (await s.claim(skip, skip, work, stale)).recorded == {("skipped", "misfire"): 10}
        assert (await s.claim(skip, work)).recorded == {}
        assert await rig.spans() == ([("misfire", 10)], [("schedule", 10)])


@trio_test
async def test_what_a_paused_and_a_deleted_job_may_run(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        await s.store.settle([result_of(await s.running(job), Outcome.RELEASED)])
        await rig.run(trigger_job, "t", job.job_id, uuid.uuid4().bytes)
        paused = await rig.run(pause_job, "t", job.job_id)
        (triggered,) = [row for row in (await s.load()).waiting if row.attempt == 1]
        at_ms = triggered.scheduled_ms - job.effective_from_ms
        run_now = fire_of(job, at_ms, schedule_no=0, execution_id=triggered.execution_id)
        reply = await s.claim(fire_of(job, attempt=2), fire_of(paused, 5), run_now)
        assert [claimed.execution_id for claimed in reply.claimed] == [triggered.execution_id]
        assert reply.recorded == {("held", "paused"): 1, ("skipped", "paused"): 1}
        before = await s.states()
        await s.sweep_held()
        assert await s.states() == before
        await rig.run(delete_job, "t", job.job_id)
        assert ("skipped", "deleted", 2) in await s.states()
        deleted = await s.job(job.job_id)
        assert (await s.claim(fire_of(deleted, 7))).recorded == {("skipped", "deleted"): 1}


@trio_test
async def test_a_moved_job_goes_out_again_and_an_unknown_handler_is_held(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", pool="long")
        assert (await s.claim(fire_of(job))).recorded == {("queued", "moved"): 1}
        assert [row.pool for row in (await s.load()).waiting] == ["long"]
        reply = await s.claim(fire_of(job), pool="long", tasks=frozenset({"other"}))
        assert reply.recorded == {("held", "handler_unknown"): 1}
        await s.announce("work", pool="long")
        await s.sweep_held()
        assert await s.states() == [("queued", None, 1)]


@trio_test
async def test_a_claim_waits_for_a_pause_under_way_and_obeys_it(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        other = await s.create(every="10s")
        replies: list[ClaimReply] = []

        async def claim() -> None:
            replies.append(await s.claim(fire_of(job), fire_of(other)))

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                async with (
                    rig.long(pause_job, "t", job.job_id),
                    rig.long(edit_job, "t", other.job_id, {"tags": ["a"]}),
                ):
                    nursery.start_soon(claim)
                    await rig.until_somebody_waits()
        # The pause made the fire's number stale; an edit of tags did not.
        assert [claimed.job_id for claimed in replies[0].claimed] == [other.job_id]


# --- settling and the sweep ---------------------------------------------------------------------------


@trio_test
async def test_a_success_is_settled_once(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        claimed = await s.running(await s.create(every="10s"))
        stale = result_of(claimed._replace(claim_token=uuid.uuid4().bytes))
        settled = await s.store.settle([stale, result_of(claimed)])
        assert (settled.by_state, settled.stale) == ({"succeeded": 1}, 1)
        assert (await s.store.settle([result_of(claimed, Outcome.FAILED)])).by_state == {}
        assert await s.states() == [("succeeded", None, 1)]


@trio_test
async def test_failures_retry_and_then_die(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s", max_retries=1)
        first = await s.running(job)
        assert (await s.store.settle([result_of(first, Outcome.FAILED)])).by_state == {"retry_wait": 1}
        (waiting,) = (await s.load()).waiting
        assert (waiting.attempt, waiting.due_ms > first.due_ms) == (2, True)
        (second,) = (await s.claim(fire_of(job, attempt=2))).claimed
        assert second.failures == 1
        assert (await s.store.settle([result_of(second, Outcome.FAILED)])).by_state == {"dead": 1}
        assert await s.states() == [("dead", "retries_exhausted", 2)]


@trio_test
async def test_a_dead_workers_run_comes_back_and_its_late_result_is_refused(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        first = await s.running(job)
        assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {}
        await rig.end_leases()
        assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {"queued": 1}
        assert (await s.store.settle([result_of(first)])).stale == 1
        assert await s.states() == [("queued", "worker_crashed", 2)]
        await s.claim(fire_of(job, attempt=2))
        await rig.end_leases()
        assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {"dead": 1}
        assert await s.states() == [("dead", "poison", 2)]


@trio_test
async def test_a_heartbeat_extends_tells_and_makes_the_sweep_wait_for_a_result(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        first, second = await s.running(job), await s.running(job, 1)
        assert await rig.run(cancel_execution, "t", second.execution_id) == "already_running"
        await rig.end_leases()
        held = [Held(one.execution_id, one.attempt, one.claim_token) for one in (first, second)]
        stranger = held[0]._replace(attempt=7)
        assert (await s.store.heartbeat([stranger], "short", "g")).ours == frozenset()
        beat = await s.store.heartbeat(held, "short", "g")
        assert (len(beat.ours), beat.to_stop) == (2, frozenset({second.execution_id}))
        assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {}
        await s.store.heartbeat([held[0]._replace(topic_partition=3, offset=10)], "short", "g")
        await rig.end_leases()
        assert (await s.store.sweep_lost(list(ALL), ResultsStand("g", {3: 10}))).by_state == {"cancelled": 1}
        assert (await s.store.sweep_lost(list(ALL), ResultsStand("g", {3: 11}))).by_state == {"queued": 1}


@trio_test
async def test_a_job_completes_when_the_floor_has_passed_its_last_time(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(run_at="2026-01-01T00:00:00Z")
        claimed = await s.running(job)
        await rig.set_floor(job.partition, job.effective_from_ms, job.effective_from_ms)
        assert (await s.store.sweep_completed(list(ALL), FIRST_ENDING))[0] == 0
        await s.store.settle([result_of(claimed)])
        assert (await s.store.sweep_completed(list(ALL), FIRST_ENDING))[0] == 1
        done = await s.job(job.job_id)
        assert (done.state, done.schedule_no) == ("completed", job.schedule_no)


@trio_test
async def test_a_completed_job_that_is_given_other_times_is_active_again(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(run_at="2026-01-01T00:00:00Z")
        await s.store.settle([result_of(await s.running(job))])
        await rig.set_floor(job.partition, job.effective_from_ms, job.effective_from_ms)
        await s.store.sweep_completed(list(ALL), FIRST_ENDING)
        loaded = await s.load()
        assert (await rig.run(edit_job, "t", job.job_id, {"tags": ["a"]})).state == "completed"
        edited = await rig.run(edit_job, "t", job.job_id, {"every": "1h", "max_runs": 2})
        assert edited.state == "active"
        fed = (await s.store.changes(list(ALL), loaded.snapshot)).jobs
        assert [(entry.schedule_no, entry.active) for entry in fed] == [(edited.schedule_no, True)]
        times = edited.timing.times_between(
            edited.effective_from_ms - 1, edited.effective_from_ms + 86_400_000
        )
        assert len(list(times)) == 1  # One of two had run before.


@trio_test
async def test_a_time_out_counts_only_if_the_worker_lived_to_see_it(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        await s.running(await s.create(every="10s"))
        await rig.overrun(by_s=10, heard_s_ago=0)  # Its worker may still end it.
        assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {}
        await rig.overrun(by_s=20, heard_s_ago=8)  # Nobody knows whether its worker was alive then.
        assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {}
        await rig.overrun(by_s=20, heard_s_ago=2)  # It was, and did not end it.
        assert (await s.store.sweep_lost(list(ALL), NOWHERE)).by_state == {"retry_wait": 1}
