"""The contract of the loop's store, on the twin in memory and on a real PostgreSQL: the simulation is worth
as much as these two agree."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.compose.postgres import PostgresServer
from shardwheel.errors import ConflictError, UsageError
from shardwheel.execution import Claimant, Claimed, ClaimReply, Held, ResultsStand
from shardwheel.ids import fire_id
from shardwheel.job import Changes
from shardwheel.posting import parse_posting
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, delete_job, edit_job, get_job, pause_job, resume_job
from shardwheel.store.requests import backfill_job, cancel_execution, trigger_job
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome, Result
from tests.contract.loop_rig import LoopRig, LoopStore, MemoryLoopRig, Seen, postgres_loop_rig
from tests.contract.store_rig import PATIENCE_S, own
from tests.servers import fresh_database

BOTH = ["memory", pytest.param("postgres", marks=pytest.mark.servers)]
ALL = range(256)
NOWHERE = ResultsStand("g", {})


@pytest.fixture(scope="module")
def module_database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    with fresh_database(postgres_server, migrated_template) as dsn:
        yield dsn


@pytest.fixture(params=BOTH)
def rig(request: pytest.FixtureRequest) -> Iterator[LoopRig]:
    if request.param == "memory":
        yield MemoryLoopRig()
        return
    with postgres_loop_rig(request.getfixturevalue("module_database")) as real:
        yield real


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> MockClock | None:
    in_memory = "memory" in request.node.callspec.params.values()
    return MockClock(autojump_threshold=0) if in_memory else None


class Scene:
    """One store with one job that runs every ten seconds; what one does to both."""

    def __init__(self, rig: LoopRig, store: LoopStore) -> None:
        self.rig = rig
        self.store = store

    async def create(self, **fields: Any) -> JobRow:
        posting = parse_posting({"task": "work"} | fields)
        (job_id,) = await self.rig.run(create_jobs, "t", [posting])
        return await self.job(job_id)

    async def job(self, job_id: bytes) -> JobRow:
        return await self.rig.run(get_job, "t", job_id)

    async def aged(self, by_ms: int, **fields: Any) -> JobRow:
        job = await self.create(**fields)
        await self.rig.age(job.job_id, by_ms)
        return await self.job(job.job_id)

    async def claim(self, *fires: Fire, **claimant: Any) -> ClaimReply:
        values = {"worker": "w", "pool": "short", "tasks": frozenset({"work"}), "token": uuid.uuid4().bytes}
        return await self.store.claim([(fire, 2) for fire in fires], Claimant(**(values | claimant)))

    async def running(self, job: JobRow, at_ms: int = 0) -> Claimed:
        (claimed,) = (await self.claim(fire_of(job, at_ms))).claimed
        return claimed

    async def states(self) -> list[tuple[str, str | None, int]]:
        return [(row.state, row.reason, row.attempt) for row in await self.rig.executions()]

    async def load(self) -> Changes:
        jobs, waiting, snapshot, horizon_xid = [], [], "", 0
        async with self.store.load(list(ALL)) as batches:
            async for batch in batches:
                jobs += batch.jobs
                waiting += batch.waiting
                snapshot, horizon_xid = batch.snapshot, batch.horizon_xid
        return Changes(jobs, waiting, snapshot, horizon_xid)


@asynccontextmanager
async def scene(rig: LoopRig) -> AsyncIterator[Scene]:
    async with rig.open() as store:
        yield Scene(rig, store)


def fire_of(job: JobRow, at_ms: int = 0, **fields: Any) -> Fire:
    """As a shard would publish the job's time so many milliseconds after its beginning."""
    scheduled_ms = job.effective_from_ms + at_ms
    values: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "kind": FireKind.FIRE,
        "execution_id": fire_id(job.job_id, job.partition, scheduled_ms),
        "job_id": job.job_id,
        "partition": job.partition,
        "schedule_no": job.schedule_no,
        "scheduled_ms": scheduled_ms,
        "due_ms": scheduled_ms,
        "attempt": 1,
    }
    return Fire(**(values | fields))


def result_of(claimed: Claimed, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> Result:
    head = (FORMAT_VERSION, claimed.execution_id, claimed.job_id, claimed.partition, claimed.attempt)
    tail = (claimed.claim_token, outcome, claimed.due_ms, claimed.due_ms + 40, "w")
    return Result(*head, *tail, **fields)


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
        assert await s.store.sweep_held(list(ALL)) == 0
        await rig.run(delete_job, "t", job.job_id)
        assert await s.store.sweep_held(list(ALL)) == 1
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
        assert await s.store.sweep_held(list(ALL)) == 1
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
        assert await s.store.sweep_lost(list(ALL), NOWHERE) == {}
        await rig.end_leases()
        assert await s.store.sweep_lost(list(ALL), NOWHERE) == {"queued": 1}
        assert (await s.store.settle([result_of(first)])).stale == 1
        assert await s.states() == [("queued", "worker_crashed", 2)]
        await s.claim(fire_of(job, attempt=2))
        await rig.end_leases()
        assert await s.store.sweep_lost(list(ALL), NOWHERE) == {"dead": 1}
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
        assert await s.store.sweep_lost(list(ALL), NOWHERE) == {}
        await s.store.heartbeat([held[0]._replace(topic_partition=3, offset=10)], "short", "g")
        await rig.end_leases()
        assert await s.store.sweep_lost(list(ALL), ResultsStand("g", {3: 10})) == {"queued": 1}
        assert await s.store.sweep_lost(list(ALL), ResultsStand("g", {3: 11})) == {"queued": 1}


@trio_test
async def test_a_job_completes_when_the_floor_has_passed_its_last_time(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(run_at="2026-01-01T00:00:00Z")
        claimed = await s.running(job)
        await rig.set_floor(job.partition, job.effective_from_ms, job.effective_from_ms)
        assert await s.store.sweep_completed(list(ALL)) == 0
        await s.store.settle([result_of(claimed)])
        assert await s.store.sweep_completed(list(ALL)) == 1
        done = await s.job(job.job_id)
        assert (done.state, done.schedule_no) == ("completed", job.schedule_no)


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
        ahead = fire_of(job, 10_000)
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
