"""A dump restored into another PostgreSQL, for real: what goes on after `rebase`, and nothing before it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from shardwheel.compose.postgres import PostgresServer, binaries
from shardwheel.ports import PartitionState, Watermark
from shardwheel.posting import parse_posting
from shardwheel.store.feed import changes
from shardwheel.store.floors import store_floors
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, get_job
from shardwheel.store.migrate import migrate
from shardwheel.store.ownership import read_identity, read_partitions, reset_to_floor, store_watermarks
from shardwheel.store.rebase import count_foreign, rebase
from shardwheel.store.requests import trigger_job

pytestmark = pytest.mark.servers

Conn = psycopg.Connection[Any]
JOB = parse_posting({"task": "t", "every": "1h"})
FLOOR_MS, FIRED_MS = 1_000, 5_000


def create(conn: Conn, partition: int | None = None) -> JobRow:
    """A job, in this partition if one is named: its id decides, so many are made until one fits."""
    while True:
        for job_id in create_jobs(conn, "default", [JOB] * 500):
            job = get_job(conn, "default", job_id)
            if partition in (None, job.partition):
                conn.commit()
                return job


def fire(conn: Conn, partition: int, through_ms: int) -> None:
    """Its owner has fired so far, with all in its wheel that is committed now."""
    identity = read_identity(conn)
    (state,) = read_partitions(conn, [partition])
    if not state.epoch:
        (state,) = reset_to_floor(conn, {partition: 0}, "a", "kafka", identity)
    ((horizon,),) = conn.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint").fetchall()
    assert not store_watermarks(conn, [Watermark(partition, state.epoch, through_ms, horizon)], identity)
    conn.commit()


def floor(conn: Conn, partition: int) -> None:
    assert store_floors(conn, read_partitions(conn, [partition])) == 1
    conn.commit()


def burn_xids(conn: Conn) -> None:
    """Let this PostgreSQL be far ahead: each block that writes is a transaction of its own, inside."""
    conn.execute(
        "CREATE TEMP TABLE burnt (n int); DO $$ BEGIN FOR n IN 1..50000 LOOP"
        " BEGIN INSERT INTO burnt VALUES (n); EXCEPTION WHEN division_by_zero THEN NULL; END;"
        " END LOOP; END $$"
    )
    conn.commit()


def restore(source: str, target: str) -> None:
    """As an administrator does it, by pipe."""
    dump = [str(binaries() / "pg_dump"), "--schema=shardwheel", source]
    with subprocess.Popen(dump, stdout=subprocess.PIPE) as dumping:
        load = [str(binaries() / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-d", target]
        subprocess.run(load, stdin=dumping.stdout, stdout=subprocess.DEVNULL, check=True)
    assert dumping.returncode == 0


def taken(conn: Conn, partition: int) -> list[PartitionState]:
    (state,) = read_partitions(conn, [partition])
    return reset_to_floor(conn, {partition: state.epoch}, "b", "kafka", read_identity(conn))


@pytest.mark.usefixtures("migrated_template")  # It brings the roles, which are the server's, not the dump's.
def test_a_restored_dump_goes_on_from_the_floor(
    own_postgres: Callable[[], PostgresServer], database: str
) -> None:
    source = own_postgres().dsn
    with psycopg.connect(source) as conn:
        migrate(conn)
        burn_xids(conn)
        seen = create(conn)
        fire(conn, seen.partition, FLOOR_MS)
        floor(conn, seen.partition)
        # Fired as well, but the floor does not vouch for it.
        unseen = create(conn, seen.partition)
        trigger_job(conn, "default", unseen.job_id, bytes(16))
        conn.commit()
        fire(conn, seen.partition, FIRED_MS)
    restore(source, database)
    with psycopg.connect(database) as conn:
        assert taken(conn, seen.partition) == []
        assert count_foreign(conn) == 1
        assert rebase(conn) == 256
        conn.commit()
        assert (count_foreign(conn), rebase(conn)) == (0, 0)
        conn.commit()
        check_gone_on(conn, seen, unseen)


def check_gone_on(conn: Conn, seen: JobRow, unseen: JobRow) -> None:
    """The one goes on after the floor, the other from its beginning; the feed comes to a rest."""
    (state,) = taken(conn, seen.partition)
    assert (state.fired_through_ms, state.floor_ms) == (FLOOR_MS, FLOOR_MS)
    before, after = (get_job(conn, "default", job.job_id) for job in (seen, unseen))
    assert before.schedule_xid < state.horizon_xid == state.floor_xid <= after.schedule_xid
    kept = [(job.schedule_no, job.effective_from_ms) for job in (before, after)]
    assert kept == [(job.schedule_no, job.effective_from_ms) for job in (seen, unseen)]
    conn.commit()
    ((here,),) = conn.execute("SELECT pg_current_snapshot()::text").fetchall()
    conn.commit()
    found = changes(conn, range(256), here)
    assert (found.jobs, found.waiting) == ([], [])
