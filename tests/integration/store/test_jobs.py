"""What people say, on real PostgreSQL: create, edit, pause, resume, delete; the old schedule's settling."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.ids import fire_id, text_of
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.audit import Actor
from shardwheel.store.execution_requests import cancel_on_record
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import (
    create_jobs,
    delete_job,
    edit_job,
    get_job,
    list_jobs,
    pause_job,
    read_now_ms,
    resume_job,
)
from shardwheel.store.requests import backfill_job, cancel_execution, trigger_job

pytestmark = pytest.mark.servers
Connection = psycopg.Connection[Any]


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        yield connection


def create(conn: Connection, **fields: Any) -> JobRow:
    (job_id,) = create_jobs(conn, "t", [parse_posting({"task": "work"} | fields)])
    return get_job(conn, "t", job_id)


def age(conn: Connection, job: JobRow, by_ms: int) -> JobRow:
    """As if the job had been made that much earlier: triggers are off while its times are set back."""
    with conn.transaction():
        conn.execute("SET LOCAL session_replication_role = replica")
        conn.execute(
            """UPDATE shardwheel.jobs SET effective_from = effective_from - %(by)s * interval '1 ms',
                      anchor_at = anchor_at - %(by)s * interval '1 ms',
                      last_at = last_at - %(by)s * interval '1 ms',
                      start_at = start_at - %(by)s * interval '1 ms' WHERE job_id = %(job)s""",
            {"by": by_ms, "job": Uuid(job.job_id)},
        )
    return get_job(conn, "t", job.job_id)


def set_floor(conn: Connection, job: JobRow, floor_ms: int, fired_through_ms: int | None = None) -> None:
    """The leader's word: all with a fire time up to here, of schedules as they are now, met the claim."""
    conn.execute(
        """UPDATE shardwheel.partitions SET floor_ms = %s, fired_through_ms = %s,
                  floor_xid = pg_snapshot_xmax(pg_current_snapshot()),
                  horizon_xid = pg_snapshot_xmax(pg_current_snapshot())
            WHERE partition = %s""",
        [floor_ms, fired_through_ms or floor_ms, job.partition],
    )


def executions(conn: Connection) -> list[tuple[int, str, str | None, str]]:
    return conn.execute(
        """SELECT shardwheel.ms(scheduled_at), state, reason, origin
             FROM shardwheel.executions ORDER BY execution_id"""
    ).fetchall()


def test_a_batch_is_created_all_or_none_with_ids_in_order(conn: Connection) -> None:
    postings = [parse_posting({"task": f"task-{n}", "every": "10s"}) for n in range(50)]
    ids = create_jobs(conn, "t", postings)
    assert [get_job(conn, "t", job_id).task for job_id in ids] == [posting.task for posting in postings]
    assert len({get_job(conn, "t", job_id).schedule_no for job_id in ids}) == 50
    with pytest.raises(UsageError), conn.transaction():
        create_jobs(
            conn, "t", [parse_posting({"task": "a"}), parse_posting({"task": "b", "cron": "0 0 30 2 *"})]
        )
    assert len(list_jobs(conn, "t", limit=200)) == 50


def test_lists_are_paged_and_filtered_and_one_tenants_own(conn: Connection) -> None:
    jobs = [create(conn, task="a" if n % 2 else "b", every="1h") for n in range(6)]
    first = list_jobs(conn, "t", limit=4)
    rest = list_jobs(conn, "t", limit=4, after=first[-1].job_id)
    assert [job.job_id for job in first + rest] == sorted(job.job_id for job in jobs)
    assert len(list_jobs(conn, "t", task="a")) == 3
    assert list_jobs(conn, "other") == []
    with pytest.raises(NotFoundError):
        get_job(conn, "other", jobs[0].job_id)


@pytest.mark.parametrize("before", [{"cron": "0 9 * * *"}, {"every": "90s"}])
@pytest.mark.parametrize("after", [{"cron": "0 10 * * *"}, {"every": "2m"}])
def test_a_start_that_was_said_holds_when_the_times_are_edited(
    conn: Connection, before: dict[str, Any], after: dict[str, Any]
) -> None:
    job = create(conn, start_at="2190-01-01T00:00:00Z", **before)
    edited = edit_job(conn, "t", job.job_id, after)
    assert edited.start_ms == job.start_ms and edited.schedule_no != job.schedule_no
    first_ms = edited.timing.next_after(edited.effective_from_ms)
    assert first_ms is not None and job.start_ms is not None and first_ms >= job.start_ms
    assert edit_job(conn, "t", job.job_id, {"run_at": "2190-01-01T00:00:00Z"}).start_ms is None


def test_max_runs_becomes_the_last_time_from_the_moment_it_takes_effect(conn: Connection) -> None:
    job = create(conn, every="10s", max_runs=3)
    times = list(job.timing.times_between(job.effective_from_ms - 1, job.effective_from_ms + 3_600_000))
    assert len(times) == 3
    assert job.last_ms == times[-1]


@pytest.mark.parametrize("between", [edit_job, pause_job])
def test_max_runs_counts_over_every_state_of_the_schedule(
    conn: Connection, between: Callable[..., JobRow]
) -> None:
    """Two of five have passed: three are left, however often somebody edits, pauses or resumes."""
    job = age(conn, create(conn, every="10s", max_runs=5), 25_000)
    between(conn, "t", job.job_id, *([{"every": "20s"}] if between is edit_job else []))
    if between is pause_job:
        resume_job(conn, "t", job.job_id)
    for every in ("30s", "40s"):
        job = edit_job(conn, "t", job.job_id, {"every": every})
        assert job.timing.count_between(job.effective_from_ms - 1, job.effective_from_ms + 3_600_000) == 3


def test_a_once_in_the_past_takes_effect_at_its_time_at_creation_only(conn: Connection) -> None:
    job = create(conn, run_at="2026-01-01T00:00:00Z")
    assert job.effective_from_ms == job.anchor_ms
    later = create(conn, delay="1h")
    with pytest.raises(UsageError, match="past"):
        edit_job(conn, "t", later.job_id, {"run_at": "2026-01-01T00:00:00Z"})


def test_a_once_does_not_move_to_a_time_that_has_run(conn: Connection) -> None:
    job = create(conn, delay="2h")
    taken_ms = job.anchor_ms or 0
    cancel_execution(conn, "t", fire_id(job.job_id, job.partition, taken_ms), job.job_id)
    edit_job(conn, "t", job.job_id, {"delay": "1h"})
    moment = conn.execute("SELECT shardwheel.at(%s)", [taken_ms]).fetchone()
    assert moment is not None
    with pytest.raises(ConflictError, match="already"):
        edit_job(conn, "t", job.job_id, {"run_at": moment[0]})


def test_only_a_change_of_timing_names_a_new_state_of_the_schedule(conn: Connection) -> None:
    job = create(conn, cron="0 9 * * *", time_zone="Europe/Berlin", exclude=["2026-12-25"])
    same = edit_job(conn, "t", job.job_id, {"tags": ["a"], "params": {"x": 1}, "timeout_s": 5})
    assert (same.schedule_no, same.effective_from_ms, same.schedule) == (
        job.schedule_no,
        job.effective_from_ms,
        job.schedule,
    )
    assert (same.tags, same.params, same.timeout_ms, same.version) == (
        ["a"],
        {"x": 1},
        5_000,
        job.version + 1,
    )
    other = edit_job(conn, "t", job.job_id, {"cron": "0 10 * * *"})
    assert other.schedule_no != job.schedule_no
    assert "Europe/Berlin" in other.schedule and "2026-12-25" in other.schedule
    once = edit_job(conn, "t", job.job_id, {"delay": "1h"})
    assert (once.schedule, once.start_ms, once.end_ms) == ("{}", None, None)


def test_an_edit_queues_the_old_times_above_the_floor_and_no_others(conn: Connection) -> None:
    job = age(conn, create(conn, every="10s", misfire_grace_s=3600), 60_000)
    times = list(job.timing.times_between(job.effective_from_ms - 1, job.effective_from_ms + 60_000))
    set_floor(conn, job, times[1])
    edited = edit_job(conn, "t", job.job_id, {"every": "1h"})
    expected = [time for time in times[2:] if time < edited.effective_from_ms]
    assert executions(conn) == [(time, "queued", None, "settled") for time in expected]


def test_a_schedule_younger_than_the_floors_horizon_is_settled_from_its_beginning(conn: Connection) -> None:
    job = create(conn, every="10s", misfire_grace_s=3600)
    conn.execute("UPDATE shardwheel.partitions SET floor_ms = %s", [read_now_ms(conn) + 1_000_000])
    job = age(conn, job, 60_000)
    edited = edit_job(conn, "t", job.job_id, {"every": "1h"})
    expected = job.timing.times_between(job.effective_from_ms - 1, edited.effective_from_ms - 1)
    assert [row[0] for row in executions(conn)] == list(expected)


def test_pause_and_delete_skip_what_was_open_and_said_twice_change_nothing(conn: Connection) -> None:
    job = age(conn, create(conn, every="10m"), 35 * 60_000)
    paused = pause_job(conn, "t", job.job_id)
    assert {row[1:] for row in executions(conn)} == {("skipped", "paused", "settled")}
    assert len(executions(conn)) == 3
    assert pause_job(conn, "t", job.job_id).schedule_no == paused.schedule_no
    resumed = resume_job(conn, "t", job.job_id)
    assert resumed.state == "active" and resumed.effective_from_ms >= paused.effective_from_ms
    assert resume_job(conn, "t", job.job_id).schedule_no == resumed.schedule_no
    delete_job(conn, "t", job.job_id)
    delete_job(conn, "t", job.job_id)
    assert len(executions(conn)) == 3
    with pytest.raises(NotFoundError):
        resume_job(conn, "t", job.job_id)
    assert list_jobs(conn, "t") == []


def test_an_edit_of_a_paused_job_settles_nothing(conn: Connection) -> None:
    job = create(conn, every="10s")
    pause_job(conn, "t", job.job_id)
    age(conn, job, 60_000)
    edit_job(conn, "t", job.job_id, {"every": "20s"})
    assert executions(conn) == []


@pytest.mark.parametrize(
    ("misfire", "states"),
    [
        ("fire_all", ["queued"] * 5),
        ("fire_last", ["queued"] + ["skipped"] * 3 + ["queued"]),
        ("skip", ["queued"] + ["skipped"] * 4),
    ],
)
def test_the_misfire_policy_applies_only_above_what_was_published(
    conn: Connection, misfire: str, states: list[str]
) -> None:
    job = age(conn, create(conn, every="10m", misfire=misfire), 55 * 60_000)
    times = list(job.timing.times_between(job.effective_from_ms - 1, read_now_ms(conn)))
    assert len(times) == 5
    set_floor(conn, job, times[0] - 1, fired_through_ms=times[0])
    edit_job(conn, "t", job.job_id, {"every": "1h"})
    assert [row[1] for row in executions(conn)] == states


def test_jitter_counts_from_the_fire_time(conn: Connection) -> None:
    job = age(conn, create(conn, every="1m", jitter_s=50, misfire_grace_s=3600), 10 * 60_000)
    times = list(job.timing.times_between(job.effective_from_ms - 1, read_now_ms(conn)))
    set_floor(conn, job, times[5])  # the run of times[5] itself fires later than its scheduled time
    edit_job(conn, "t", job.job_id, {"every": "1h"})
    assert next(row[0] for row in executions(conn)) == times[5]


def test_many_open_times_become_one_row(conn: Connection) -> None:
    edited, paused = (age(conn, create(conn, every="1s", misfire="fire_all"), 2_000_000) for _ in range(2))
    edit_job(conn, "t", edited.job_id, {"every": "1h"})
    pause_job(conn, "t", paused.job_id)
    assert executions(conn) == []
    work = conn.execute("SELECT job_id, origin, count FROM shardwheel.work_rows").fetchall()
    skips = conn.execute("SELECT job_id, reason, count FROM shardwheel.skip_ranges").fetchall()
    assert [(row[0].bytes, row[1]) for row in work] == [(edited.job_id, "settled")] and work[0][2] > 1_900
    assert [(row[0].bytes, row[1]) for row in skips] == [(paused.job_id, "paused")] and skips[0][2] > 1_900


def test_many_missed_times_are_one_skip_range_and_the_last_runs(conn: Connection) -> None:
    job = age(conn, create(conn, every="1s", misfire_grace_s=0), 2_000_000)
    edited = edit_job(conn, "t", job.job_id, {"every": "1h"})
    times = list(job.timing.times_between(job.effective_from_ms - 1, edited.effective_from_ms - 1))
    ((first, last, count),) = conn.execute(
        "SELECT shardwheel.ms(first_at), shardwheel.ms(last_at), count FROM shardwheel.skip_ranges"
    )
    queued = [row[0] for row in executions(conn)]
    assert queued and queued == times[-len(queued) :]
    assert (first, count) == (times[0], len(times) - len(queued)) and last < queued[0]


def test_a_trigger_is_one_run_a_request_and_runs_a_paused_job(conn: Connection) -> None:
    job = create(conn, every="1h")
    pause_job(conn, "t", job.job_id)
    request = uuid.uuid4().bytes
    first = trigger_job(conn, "t", job.job_id, request, {"x": 1})
    assert trigger_job(conn, "t", job.job_id, request, {"x": 1}) == first
    assert [row[1:] for row in executions(conn)] == [("queued", None, "trigger")]
    delete_job(conn, "t", job.job_id)
    with pytest.raises(ConflictError):
        trigger_job(conn, "t", job.job_id, uuid.uuid4().bytes)


def test_a_backfill_is_one_row_and_refuses_an_empty_or_future_span(conn: Connection) -> None:
    job = create(conn, cron="0 * * * *")
    now_ms = read_now_ms(conn)
    assert backfill_job(conn, "t", job.job_id, uuid.uuid4().bytes, now_ms - 86_400_000, now_ms) == 24
    row = conn.execute("SELECT origin, count, requeue_skipped FROM shardwheel.work_rows").fetchone()
    assert row == ("backfill", 24, True)
    for first_ms, last_ms in ((now_ms, now_ms - 1), (now_ms, now_ms + 1_000_000), (3_600_001, 3_600_002)):
        with pytest.raises(UsageError):
            backfill_job(conn, "t", job.job_id, uuid.uuid4().bytes, first_ms, last_ms)


def test_cancel_tells_the_truth(conn: Connection) -> None:
    job = create(conn, every="1h")
    execution = trigger_job(conn, "t", job.job_id, uuid.uuid4().bytes)
    with pytest.raises(NotFoundError):
        cancel_execution(conn, "other", execution)
    assert cancel_execution(conn, "t", execution) == "cancelled"
    assert cancel_execution(conn, "t", execution) == "already_done"
    running = trigger_job(conn, "t", job.job_id, uuid.uuid4().bytes)
    conn.execute(
        "UPDATE shardwheel.executions SET state = 'running' WHERE execution_id = %s", [Uuid(running)]
    )
    assert cancel_execution(conn, "t", running) == "already_running"
    ahead = fire_id(job.job_id, job.partition, job.timing.next_after(read_now_ms(conn)) or 0)
    with pytest.raises(NotFoundError):
        cancel_execution(conn, "t", ahead)
    assert cancel_execution(conn, "t", ahead, job.job_id) == "cancelled"


def test_who_asks_again_what_runs_to_stop_is_on_record_once(conn: Connection) -> None:
    job = create(conn, every="1h")
    running = trigger_job(conn, "t", job.job_id, uuid.uuid4().bytes)
    conn.execute(
        "UPDATE shardwheel.executions SET state = 'running' WHERE execution_id = %s", [Uuid(running)]
    )
    for _ in range(2):
        assert cancel_on_record(conn, "t", running, Actor("anna")).outcome == "already_running"
    actions = conn.execute("SELECT action FROM shardwheel.audit WHERE object_id = %s", [text_of(running)])
    assert actions.fetchall() == [("execution.cancel",)]


def test_only_a_time_of_the_schedule_is_cancelled_ahead(conn: Connection) -> None:
    """Whoever computes an id for any other moment gets no row: nothing is ever fired for it."""
    job = create(conn, every="1h")
    next_ms = job.timing.next_after(read_now_ms(conn)) or 0
    for moment_ms in (next_ms - 1, next_ms + 1, next_ms - 3_600_000 * 20):
        with pytest.raises(NotFoundError):
            cancel_execution(conn, "t", fire_id(job.job_id, job.partition, moment_ms), job.job_id)
    assert conn.execute("SELECT count(*) FROM shardwheel.executions").fetchone() == (0,)
