"""Counting jobs and setting partitions back, on a real PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from shardwheel.ports import Identity, Watermark
from shardwheel.posting import parse_posting
from shardwheel.store.floors import store_floors
from shardwheel.store.jobs import create_jobs, get_job, pause_job
from shardwheel.store.ownership import read_identity, read_partitions, reset_to_floor, store_watermarks
from shardwheel.store.steering import SetBack, count_jobs, last_taken_ms, set_back

pytestmark = pytest.mark.servers


def fired(conn: psycopg.Connection[tuple[object, ...]], through_ms: int) -> Identity:
    """Partitions 3 and 4 were fired so far by one owner, and claimed as far as 1,000."""
    identity = read_identity(conn)
    taken = reset_to_floor(conn, {3: 0, 4: 0}, "a", "kafka", identity)
    for reached_ms in (1_000, through_ms):
        marks = [Watermark(state.partition, state.epoch, reached_ms, 50) for state in taken]
        assert store_watermarks(conn, marks, identity) == set()
        if reached_ms == 1_000:
            assert store_floors(conn, read_partitions(conn, [3, 4])) == 2
    return identity


def test_setting_back_fences_the_owner_and_takes_the_floor_along(migrated_database: str) -> None:
    with psycopg.connect(migrated_database) as conn:
        identity = fired(conn, 5_000)
        before = read_partitions(conn, [3, 4])
        assert set_back(conn, [3], 800) == [SetBack(3, 5_000, 800)]
        three, four = read_partitions(conn, [3, 4])
        assert (three.epoch, three.fired_through_ms, three.floor_ms) == (2, 800, 800)
        assert four == before[1]
        late = [Watermark(p, 1, 6_000, 60) for p in (3, 4)]
        assert store_watermarks(conn, late, identity) == {3}
        # The leader saw (T, X) before: what is fired again since has not met the claim.
        assert store_floors(conn, before) == 1
        assert [state.floor_ms for state in read_partitions(conn, [3, 4])] == [800, 5_000]


def test_back_to_the_floor_and_never_forth(migrated_database: str) -> None:
    with psycopg.connect(migrated_database) as conn:
        fired(conn, 5_000)
        assert set_back(conn, [3, 4, 5], 5_000) == []
        assert set_back(conn, [3, 4, 5], None) == [SetBack(3, 5_000, 1_000), SetBack(4, 5_000, 1_000)]


def test_active_jobs_are_counted_and_the_last_taking_is_known(migrated_database: str) -> None:
    with psycopg.connect(migrated_database) as conn:
        assert (count_jobs(conn), last_taken_ms(conn)) == ({}, 0)
        ids = create_jobs(conn, "default", [parse_posting({"task": "t", "every": "1h"})] * 3)
        pause_job(conn, "default", ids[0])
        partitions = [get_job(conn, "default", job_id).partition for job_id in ids[1:]]
        assert sorted(count_jobs(conn).items()) == sorted(
            {p: partitions.count(p) for p in partitions}.items()
        )
        assert count_jobs(conn, "default") == count_jobs(conn)
        assert count_jobs(conn, "rival") == {}
        fired(conn, 5_000)
        assert last_taken_ms(conn) > 0
