"""The change feed on real PostgreSQL: however long a transaction takes, its changes are handed out."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
import trio
from trio.testing import trio_test

from shardwheel.errors import UnavailableError
from shardwheel.job import Changes
from shardwheel.posting import parse_posting
from shardwheel.store import ownership
from shardwheel.store.feed import PLANNER, changes, load
from shardwheel.store.jobs import create_jobs, edit_job, get_job, pause_job
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore
from shardwheel.store.requests import trigger_job

pytestmark = pytest.mark.servers
Connection = psycopg.Connection[Any]
ALL = range(256)


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        yield connection


def create(conn: Connection, **fields: Any) -> bytes:
    (job_id,) = create_jobs(conn, "t", [parse_posting({"task": "work", "every": "1h"} | fields)])
    return job_id


def read(conn: Connection, since: str, partitions: Sequence[int] = ALL) -> Changes:
    with conn.transaction():
        return changes(conn, partitions, since)


def load_all(conn: Connection) -> tuple[list[bytes], list[bytes], str]:
    with conn.transaction():
        batches = list(load(conn, ALL))
    assert len({batch.snapshot for batch in batches}) == 1
    jobs = [job.job_id for batch in batches for job in batch.jobs]
    return jobs, [one.execution_id for batch in batches for one in batch.waiting], batches[0].snapshot


def test_a_load_holds_active_jobs_and_waiting_executions_as_stored(conn: Connection) -> None:
    job_id, paused = create(conn, start_at="2027-01-01T00:00:00Z", jitter_s=2, priority="high"), create(conn)
    pause_job(conn, "t", paused)
    execution = trigger_job(conn, "t", paused, uuid.uuid4().bytes)
    jobs, waiting, snapshot = load_all(conn)
    assert (jobs, waiting) == ([job_id], [execution])
    edit_job(conn, "t", job_id, {"tags": ["x"]})
    (entry,) = read(conn, snapshot).jobs
    row = get_job(conn, "t", job_id)
    assert (entry.schedule, entry.start_ms, entry.schedule_no) == (
        row.schedule,
        row.start_ms,
        row.schedule_no,
    )
    assert (entry.schedule_xid, entry.effective_from_ms) == (row.schedule_xid, row.effective_from_ms)
    assert (entry.active, entry.version, entry.jitter_ms, entry.priority) == (True, 2, 2_000, 1)


def test_changes_come_once_and_only_of_the_partitions_asked_for(conn: Connection) -> None:
    _, _, snapshot = load_all(conn)
    job_id = create(conn)
    partition = get_job(conn, "t", job_id).partition
    first = read(conn, snapshot)
    assert [job.job_id for job in first.jobs] == [job_id]
    assert read(conn, first.snapshot).jobs == []
    assert read(conn, snapshot, [(partition + 1) % 256]).jobs == []


def test_a_long_transaction_is_seen_after_it_commits_and_does_not_make_others_come_again(
    conn: Connection, migrated_database: str
) -> None:
    _, _, snapshot = load_all(conn)
    with psycopg.connect(migrated_database) as slow:
        late = create(slow)
        early = create(conn)
        during = read(conn, snapshot)
        assert [job.job_id for job in during.jobs] == [early]
        again = read(conn, during.snapshot)
        assert again.jobs == []
        assert again.horizon_xid == during.horizon_xid  # it stands still while the slow one is open
        slow.commit()
    after = read(conn, again.snapshot)
    assert [job.job_id for job in after.jobs] == [late]
    assert after.horizon_xid > during.horizon_xid


def test_what_stops_waiting_or_being_active_is_told_as_such(conn: Connection) -> None:
    job_id = create(conn)
    _, _, snapshot = load_all(conn)
    execution = trigger_job(conn, "t", job_id, uuid.uuid4().bytes)
    pause_job(conn, "t", job_id)
    told = read(conn, snapshot)
    assert [(job.job_id, job.active) for job in told.jobs] == [(job_id, False)]
    assert [(one.execution_id, one.attempt) for one in told.waiting] == [(execution, 1)]
    conn.execute("UPDATE shardwheel.executions SET state = 'retry_wait', attempt = 2")
    (waiting,) = read(conn, told.snapshot).waiting
    assert (waiting.attempt, waiting.job_id) == (2, job_id)


def test_one_read_is_of_one_snapshot_whatever_the_transaction_promises(
    conn: Connection, migrated_database: str
) -> None:
    """Also read-committed, where each statement sees another state: there is one statement only."""
    _, _, snapshot = load_all(conn)
    job_id = create(conn)
    execution = trigger_job(conn, "t", job_id, uuid.uuid4().bytes)
    with psycopg.connect(migrated_database) as reader:
        found = changes(reader, ALL, snapshot)
        assert [job.job_id for job in found.jobs] == [job_id]
        assert [one.execution_id for one in found.waiting] == [execution]
        assert found.horizon_xid == int(found.snapshot.partition(":")[0])
        later = create(conn)
        assert [job.job_id for job in changes(reader, ALL, found.snapshot).jobs] == [later]


@trio_test
async def test_the_feed_waits_for_no_link_of_others(migrated_database: str) -> None:
    busy, done = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        busy.set()
        done.wait()

    async with (
        Pool(migrated_database, name="t", size=1) as pool,
        Pool(migrated_database, name="f", size=1) as feed,
    ):
        store = PostgresStore(pool, feed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, hold)
            try:
                await trio.to_thread.run_sync(busy.wait)
                with trio.fail_after(5):
                    assert (await store.changes(ALL, "3:3:")).jobs == []
            finally:
                done.set()


@trio_test
async def test_the_feed_believes_no_other_postgresql_than_the_one_that_owners_write_to(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its link may outlive a fail-over that broke all others: what it says is of the former primary."""
    async with (
        Pool(migrated_database, name="t", size=1) as pool,
        Pool(migrated_database, name="f", size=1) as feed,
    ):
        store = PostgresStore(pool, feed)
        here = await store.identity()
        assert (await store.changes(ALL, "3:3:")).jobs == []
        elsewhere = here._replace(timeline=here.timeline + 1)
        monkeypatch.setattr(ownership, "read_identity", lambda connection: elsewhere)
        await store.identity()
        with pytest.raises(UnavailableError, match="another PostgreSQL"):
            await store.changes(ALL, "3:3:")
        monkeypatch.undo()
        await store.identity()
        assert (await store.changes(ALL, "3:3:")).jobs == []


@trio_test
async def test_a_read_looks_at_no_other_job_however_small_the_tables_were_when_it_was_planned(
    conn: Connection, migrated_database: str
) -> None:
    """Without a word to the planner a waiting execution cost a look at every job, until somebody analyzed."""

    def jobs_gone_through(link: Connection, since: str) -> tuple[int, int]:
        waiting = changes(link, ALL, since).waiting
        seen = link.execute("SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'jobs'")
        return len(waiting), sum(row[0] for row in seen)

    async with Pool(migrated_database, name="f", size=1, planner=PLANNER) as feed:
        for _ in range(10):
            await feed.run(changes, ALL, "3:3:")
        job_id = create(conn)
        conn.execute(
            """INSERT INTO shardwheel.jobs (job_id, tenant_id, partition, task)
               SELECT gen_random_uuid(), 't', number % 256, 'work' FROM generate_series(1, 3000) AS number"""
        )
        ((since,),) = conn.execute("SELECT pg_current_snapshot()::text").fetchall()
        trigger_job(conn, "t", job_id, uuid.uuid4().bytes)
        assert await feed.run(jobs_gone_through, since) == (1, 0)
