"""The sweep on real PostgreSQL: dead workers, hanging ones, held and overdue rows, completion, work rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from shardwheel.execution import FIRST_ENDING, FIRST_PAGES, Claimed, Held, ResultsStand
from shardwheel.limits import WorkerCard
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.expand import expand_work
from shardwheel.store.heartbeat import heartbeat
from shardwheel.store.held import sweep_held
from shardwheel.store.jobs import create_jobs, delete_job, get_job, read_now_ms
from shardwheel.store.requests import backfill_job, cancel_execution
from shardwheel.store.settle import settle
from shardwheel.store.sql import sql
from shardwheel.store.sweep import sweep_completed, sweep_lost, sweep_overdue
from shardwheel.store.workers import announce_worker, withdraw_worker
from tests.integration.store.blocking import LIMIT_S, blocked
from tests.integration.store.gate import NOON_MS, Gate, result_of

pytestmark = pytest.mark.servers
NOWHERE = ResultsStand("g", {})
ALL = range(256)


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    yield rig
    rig.close()


def running(gate: Gate, at_ms: int = NOON_MS) -> Claimed:
    return gate.claim(gate.fire(at_ms)).claimed[0]


def end_leases(gate: Gate) -> None:
    over = "UPDATE shardwheel.executions SET lease_until = now() - interval '1 s' WHERE state = 'running'"
    gate.conn.execute(over)


def test_what_a_dead_worker_held_comes_back_without_a_failure_and_its_late_result_is_refused(
    gate: Gate,
) -> None:
    claimed = running(gate)
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {}
    end_leases(gate)
    assert sweep_lost(gate.conn, [8], NOWHERE).by_state == {}
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {"queued": 1}
    row = gate.row(claimed)
    assert row is not None
    assert (row["attempt"], row["failures"], row["crashes"], row["reason"]) == (2, 0, 1, "worker_crashed")
    assert gate.settle(result_of(claimed)) == {}
    attempts = gate.conn.execute("SELECT outcome, class FROM shardwheel.attempts").fetchall()
    assert attempts == [("crashed", "WorkerLost")]


def test_an_execution_that_kills_two_workers_is_poison(gate: Gate) -> None:
    claimed = running(gate)
    end_leases(gate)
    sweep_lost(gate.conn, ALL, NOWHERE)
    gate.claim(gate.fire(schedule_no=0, attempt=2))
    end_leases(gate)
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {"dead": 1}
    assert gate.state(claimed) == ("dead", "poison", 2)
    assert gate.conn.execute("SELECT count(*) FROM shardwheel.dead_letters").fetchone() == (1,)


def test_a_heartbeat_extends_the_lease_tells_of_a_cancel_and_of_what_is_lost(gate: Gate) -> None:
    first, second = running(gate), running(gate, NOON_MS + 1)
    end_leases(gate)
    cancel_execution(gate.conn, "t", second.execution_id)
    held = [Held(one.execution_id, one.attempt, one.claim_token) for one in (first, second)]
    stranger = Held(first.execution_id, 7, uuid.uuid4().bytes)
    assert heartbeat(gate.conn, [stranger], "short", "g").ours == frozenset()
    beat = heartbeat(gate.conn, held, "short", "g")
    assert set(beat.ours) == {first.execution_id, second.execution_id}
    assert set(beat.to_stop) == {second.execution_id}
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {}


def test_a_result_that_lags_is_waited_for(gate: Gate) -> None:
    claimed = running(gate)
    held = Held(claimed.execution_id, claimed.attempt, claimed.claim_token, topic_partition=3, offset=10)
    heartbeat(gate.conn, [held], "short", "generation")
    end_leases(gate)
    assert sweep_lost(gate.conn, ALL, ResultsStand("generation", {3: 10})).by_state == {}
    assert sweep_lost(gate.conn, ALL, ResultsStand("generation", {3: 11})).by_state == {"queued": 1}
    again = gate.claim(gate.fire(schedule_no=0, attempt=2)).claimed[0]
    heartbeat(gate.conn, [held._replace(attempt=2, claim_token=again.claim_token)], "short", "generation")
    end_leases(gate)
    assert sweep_lost(gate.conn, ALL, ResultsStand("another", {3: 10})).by_state == {"dead": 1}


def test_a_worker_that_hangs_past_the_time_out_is_overruled(gate: Gate) -> None:
    claimed = running(gate)
    gate.conn.execute("UPDATE shardwheel.executions SET timeout_at = now() - interval '1 hour'")
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {"retry_wait": 1}
    row = gate.row(claimed)
    assert row is not None and (row["failures"], row["crashes"]) == (1, 0)


def test_a_change_of_pool_ends_no_attempt(gate: Gate) -> None:
    """Its lease is that of the pool it was claimed in."""
    gate.update(gate.job_id, pool="medium", timeout_ms=60_000)
    (claimed,) = gate.claim(gate.fire(), pool="medium").claimed
    gate.update(gate.job_id, pool="short")
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {}
    assert gate.state(claimed) == ("running", None, 1)


def test_a_dead_worker_is_no_time_out_of_what_it_held(gate: Gate) -> None:
    """Its time-out passes before its lease ends: whether anybody was there to end it is not known yet."""
    claimed = running(gate)
    gate.conn.execute("UPDATE shardwheel.executions SET timeout_at = now() - interval '16 s'")
    gate.conn.execute(
        "UPDATE shardwheel.executions SET lease_until = now() + interval '10 s'"
    )  # Heard 20 s ago.
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {}
    end_leases(gate)
    assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {"queued": 1}
    row = gate.row(claimed)
    assert row is not None and (row["failures"], row["crashes"]) == (0, 1)


def test_a_late_result_and_the_sweep_meet_and_one_wins(gate: Gate) -> None:
    claimed = running(gate)
    end_leases(gate)
    with gate.connect() as sweep:
        sweep_lost(sweep, ALL, NOWHERE)
        with blocked(gate.dsn, lambda conn: settle(conn, [result_of(claimed)])) as step:
            sweep.commit()
            assert step.result(LIMIT_S).stale == 1
    other = running(gate, NOON_MS + 1)
    end_leases(gate)
    with gate.connect() as results:
        settle(results, [result_of(other)])
        assert sweep_lost(gate.conn, ALL, NOWHERE).by_state == {}
        results.commit()


def test_held_rows_go_on_when_their_reason_is_over(gate: Gate) -> None:
    retry = gate.waiting(NOON_MS, attempt=2)
    gate.update(gate.job_id, state="paused")
    gate.claim(retry)
    assert gate.state(retry) == ("held", "paused", 2)
    sweep_held(gate.conn, ALL, FIRST_PAGES)
    assert gate.state(retry) == ("held", "paused", 2)
    gate.update(gate.job_id, state="active")
    sweep_held(gate.conn, ALL, FIRST_PAGES)
    assert gate.state(retry) == ("queued", None, 2)
    gate.claim(retry, tasks=frozenset())
    sweep_held(gate.conn, ALL, FIRST_PAGES)
    assert gate.state(retry) == ("held", "handler_unknown", 2)
    announce_worker(gate.conn, WorkerCard("w", "short", ("work",), 4, ""))
    sweep_held(gate.conn, ALL, FIRST_PAGES)
    assert gate.state(retry) == ("queued", None, 2)
    withdraw_worker(gate.conn, "w")


def test_what_a_deleted_job_held_is_over(gate: Gate) -> None:
    gate.update(gate.job_id, schedule='{"never":true}')
    fire = gate.waiting(NOON_MS)
    gate.claim(fire, tasks=frozenset())
    with gate.conn.transaction():
        delete_job(gate.conn, "t", gate.job_id)
    assert gate.state(fire) == ("skipped", "deleted", 1)


def test_overdue_rows_are_handed_to_the_feed_again(gate: Gate) -> None:
    old, fresh = gate.waiting(1_000_000), gate.waiting(NOON_MS * 2)
    before = gate.row(old), gate.row(fresh)
    assert sweep_overdue(gate.conn, ALL) == 1
    after = gate.row(old), gate.row(fresh)
    assert (
        before[0] is not None and after[0] is not None and before[0]["changed_xid"] != after[0]["changed_xid"]
    )
    assert before[1] == after[1]


def test_a_job_completes_when_the_floor_passed_its_last_time_and_nothing_is_open(gate: Gate) -> None:
    (job_id,) = create_jobs(
        gate.conn, "t", [parse_posting({"task": "work", "run_at": "2026-01-01T00:00:00Z"})]
    )
    job = get_job(gate.conn, "t", job_id)
    assert sweep_completed(gate.conn, ALL)[0] == 0
    floor = "UPDATE shardwheel.partitions SET floor_ms = %s, floor_xid = %s::text::xid8"
    gate.conn.execute(floor, [job.anchor_ms, str(job.schedule_xid)])
    assert sweep_completed(gate.conn, ALL)[0] == 0
    gate.conn.execute(floor, [job.anchor_ms, str(job.schedule_xid + 1)])
    assert job.anchor_ms is not None
    fire = gate.fire(job.anchor_ms, job_id=job_id)
    (claimed,) = gate.claim(fire).claimed
    assert sweep_completed(gate.conn, ALL)[0] == 0
    gate.settle(result_of(claimed))
    assert sweep_completed(gate.conn, ALL)[0] == 1
    done = get_job(gate.conn, "t", job_id)
    assert (done.state, done.schedule_no) == ("completed", job.schedule_no)


def test_a_backfill_is_expanded_in_steps_fills_gaps_and_queues_skipped_ones_again(gate: Gate) -> None:
    (job_id,) = create_jobs(gate.conn, "t", [parse_posting({"task": "work", "cron": "0 * * * *"})])
    this_hour_ms = read_now_ms(gate.conn) // 3_600_000 * 3_600_000
    hours = [this_hour_ms - hour * 3_600_000 for hour in range(10, 0, -1)]
    assert backfill_job(gate.conn, "t", job_id, uuid.uuid4().bytes, hours[0], hours[-1]) == 10
    steps = []
    while done := expand_work(gate.conn, ALL, 4):
        steps.append(done)
    assert steps == [4, 4, 2]
    rows = gate.conn.execute(
        "SELECT shardwheel.ms(scheduled_at), state, origin FROM shardwheel.executions ORDER BY 1"
    )
    assert rows.fetchall() == [(hour, "queued", "backfill") for hour in hours]
    gate.conn.execute("UPDATE shardwheel.executions SET state = 'succeeded'")
    skip = "UPDATE shardwheel.executions SET state = 'skipped' WHERE scheduled_at = shardwheel.at(%s)"
    gate.conn.execute(skip, [hours[3]])
    backfill_job(gate.conn, "t", job_id, uuid.uuid4().bytes, hours[0], hours[-1])
    expand_work(gate.conn, ALL, 100)
    queued = gate.conn.execute(
        "SELECT shardwheel.ms(scheduled_at) FROM shardwheel.executions WHERE state = 'queued'"
    )
    assert queued.fetchall() == [(hours[3],)]


def test_the_work_of_a_deleted_job_is_over(gate: Gate) -> None:
    (job_id,) = create_jobs(gate.conn, "t", [parse_posting({"task": "work", "cron": "0 * * * *"})])
    now_ms = read_now_ms(gate.conn)
    backfill_job(gate.conn, "t", job_id, uuid.uuid4().bytes, now_ms - 86_400_000, now_ms)
    delete_job(gate.conn, "t", job_id)
    assert expand_work(gate.conn, ALL, 100) == 0
    assert gate.conn.execute("SELECT state FROM shardwheel.work_rows").fetchone() == ("cancelled",)


def test_jobs_that_are_over_are_found_by_pages(gate: Gate) -> None:
    """Those that wait for something do not keep the others from being found, however they are ordered."""
    jobs = [gate.job_id, *(gate.add_job() for _ in range(4))]
    for place, job_id in enumerate(jobs):
        gate.update(job_id, last_at="2026-01-01T00:00:00Z")
        if place % 2 == 0:
            gate.conn.execute(
                """INSERT INTO shardwheel.executions (execution_id, tenant_id, partition, job_id, kind,
                                                      origin, state, scheduled_at, due_at)
                   VALUES (gen_random_uuid(), 't', 7, %s, 0, 'schedule', 'retry_wait', now(), now())""",
                [Uuid(job_id)],
            )
    gate.conn.execute("UPDATE shardwheel.partitions SET floor_ms = %s, floor_xid = '9999999'", [NOON_MS])
    page, completed, looks = FIRST_ENDING, 0, 0
    while looks == 0 or page != FIRST_ENDING:
        count, page = sweep_completed(gate.conn, ALL, page, page=1)
        completed, looks = completed + count, looks + 1
    assert (completed, looks) == (2, 6)


def test_completing_costs_a_page_though_the_statistics_are_from_before_a_burst(gate: Gate) -> None:
    """A planner that expects hardly any active job must not join the page with all of them: whatever it
    expects, the jobs of the page are found by their key, to lock them and to complete them."""
    gate.conn.execute(
        """INSERT INTO shardwheel.jobs (job_id, tenant_id, partition, task, schedule, last_at, state)
           SELECT gen_random_uuid(), 't', number %% 256, 'work', 'every', shardwheel.at(%s), 'completed'
             FROM generate_series(1, 3000) AS number""",
        [NOON_MS],
    )
    gate.conn.execute("ANALYZE shardwheel.jobs")
    gate.conn.execute("UPDATE shardwheel.jobs SET state = 'active' WHERE last_at IS NOT NULL")
    gate.conn.execute("UPDATE shardwheel.partitions SET floor_ms = %s, floor_xid = '9999999'", [NOON_MS])
    given = {
        "partitions": list(ALL),
        "after_partition": FIRST_ENDING.partition,
        "after_ms": FIRST_ENDING.last_ms,
        "after_job": Uuid(FIRST_ENDING.job_id),
        "page": 2_000,
    }
    rows = gate.conn.execute(b"EXPLAIN ANALYZE " + sql("sweep_completed"), given).fetchall()
    plan = "\n".join(line for (line,) in rows)
    assert plan.count("Index Scan using jobs_pkey on jobs") == 2
    left = gate.conn.execute("SELECT count(*) FROM shardwheel.jobs WHERE state = 'active'").fetchone()
    assert left == (1_001,)
