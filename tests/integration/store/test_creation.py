"""Jobs of a batch share what they have in common, and still each stands in the table as it was posted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from shardwheel.errors import UsageError
from shardwheel.posting import parse_posting
from shardwheel.store.audit import Actor
from shardwheel.store.creation import Wish, create_batch
from shardwheel.store.jobs import get_job, insert_jobs, read_now_ms

pytestmark = pytest.mark.servers

Connection = psycopg.Connection[Any]
ACTOR = Actor("somebody", "producer")
POSTED: list[dict[str, Any]] = [
    {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin", "params": {"n": 1}},
    {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin", "params": {"n": 2}, "name": "second"},
    {"cron": "0 9 * * 1-5", "time_zone": "Europe/Paris", "tags": ["a", "b"]},
    {"every": "10s", "jitter_s": 2},
    {"every": "10s", "max_runs": 3},
    {"every": "10s", "start_at": "2030-01-01T00:00:00Z", "end_at": "2031-01-01T00:00:00Z"},
    {"run_at": "2020-01-01T00:00:00Z"},
    {"run_at": "2030-01-01T00:00:00Z", "priority": "high", "pool": "long", "timeout_s": 1.5},
    {"delay": "5s"},
    {"delay": "6s", "backoff": {"kind": "fixed", "base_s": 3}, "not_after_s": 7, "overlap": "skip"},
    {"callback_url": "https://example.com/hook", "misfire": "skip", "misfire_grace_s": 1},
]


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database) as connection:
        yield connection


def test_what_is_told_of_new_jobs_is_what_stands_in_the_table(conn: Connection) -> None:
    postings = [parse_posting({"task": "work"} | fields) for fields in POSTED * 2]
    rows = insert_jobs(conn, "t", postings, read_now_ms(conn))
    assert rows == [get_job(conn, "t", row.job_id) for row in rows]
    assert [(row.name, row.params) for row in rows] == [(one.name, one.params) for one in postings]
    assert [row.posted()["jitter_s"] for row in rows] == [one.jitter_s for one in postings]


def test_those_with_a_key_come_back_in_their_places(conn: Connection) -> None:
    keys = ("b", None, "a", None, "b")
    wishes = [
        Wish(parse_posting({"task": f"task-{key}"} | ({"idempotency_key": key} if key else {})), ACTOR)
        for key in keys
    ]
    found = [one.job for one in create_batch(conn, "t", wishes)]
    assert [job.task for job in found] == [f"task-{key}" for key in keys]
    assert found[0] == found[4]
    audited = conn.execute("SELECT object_id, details FROM shardwheel.audit ORDER BY audit_id").fetchall()
    assert len(audited) == 4
    assert {details["after"]["task"] for _, details in audited} == {"task-None", "task-a", "task-b"}


def test_a_number_too_large_for_json_is_refused_by_name(conn: Connection) -> None:
    wishes = [
        Wish(parse_posting({"task": "a", "every": "1h", "max_runs": runs}), ACTOR) for runs in (1, 2**70)
    ]
    with pytest.raises(UsageError) as refused:
        create_batch(conn, "t", wishes)
    assert refused.value.field == "[1].max_runs"
