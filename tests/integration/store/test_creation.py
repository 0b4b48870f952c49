"""Jobs of a batch share what they have in common, and still each stands in the table as it was posted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import psycopg
import pytest

from shardwheel.errors import ConflictError, UsageError
from shardwheel.ids import text_of
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


class Counting:
    """A connection that counts what it is asked."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self.count = 0

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self._conn.execute(*args, **kwargs)


def keyed(names: Iterable[str], **fields: Any) -> list[Wish]:
    return [Wish(parse_posting({"task": "a", "idempotency_key": name} | fields), ACTOR) for name in names]


def test_keys_cost_as_many_statements_for_hundreds_as_for_two(conn: Connection) -> None:
    """Our own clients send one with every job."""
    asked = []
    for names in (range(2), range(100, 400)):
        counting = Counting(conn)
        create_batch(cast(Connection, counting), "t", keyed(str(name) for name in names))
        asked.append(counting.count)
    assert asked[0] == asked[1] <= 4
    counting = Counting(conn)
    again = create_batch(cast(Connection, counting), "t", keyed(str(name) for name in range(100, 400)))
    assert counting.count <= 4 and len({found.job.job_id for found in again}) == 300
    assert conn.execute("SELECT count(*) FROM shardwheel.jobs").fetchone() == (302,)


def test_a_batch_may_be_partly_known(conn: Connection) -> None:
    known = create_batch(conn, "t", keyed("bd"))
    found = create_batch(conn, "t", keyed("abcd"))
    assert [found[1].job, found[3].job] == [one.job for one in known]
    assert conn.execute("SELECT count(*) FROM shardwheel.jobs").fetchone() == (4,)
    rows = conn.execute("SELECT key, answer FROM shardwheel.idempotency_keys ORDER BY key").fetchall()
    assert rows == [(name, text_of(one.job.job_id)) for name, one in zip("abcd", found, strict=True)]
    assert conn.execute("SELECT count(*) FROM shardwheel.audit").fetchone() == (4,)


def test_a_key_that_ran_out_is_free_again(conn: Connection) -> None:
    (old,) = create_batch(conn, "t", keyed("k"))
    conn.execute("UPDATE shardwheel.idempotency_keys SET expires_at = now() - interval '1 ms'")
    (new,) = create_batch(conn, "t", keyed("k", tags=["other"]))
    assert new.job.job_id != old.job.job_id
    assert create_batch(conn, "t", keyed("k", tags=["other"]))[0].job == new.job


def test_a_key_of_another_body_says_whose_it_is(conn: Connection) -> None:
    create_batch(conn, "t", keyed("k"))
    conn.commit()
    with pytest.raises(ConflictError) as refused:
        create_batch(conn, "t", [*keyed("ab"), *keyed("k", tags=["other"])])
    assert refused.value.field == "[2].idempotency_key"
    conn.rollback()
    assert conn.execute("SELECT key FROM shardwheel.idempotency_keys").fetchall() == [("k",)]
    # Within one batch as well.
    with pytest.raises(ConflictError) as refused:
        create_batch(conn, "t", [*keyed("x"), *keyed("x", tags=["other"])])
    assert refused.value.field == "[1].idempotency_key"


def test_a_number_too_large_for_json_is_refused_by_name(conn: Connection) -> None:
    wishes = [
        Wish(parse_posting({"task": "a", "every": "1h", "max_runs": runs}), ACTOR) for runs in (1, 2**70)
    ]
    with pytest.raises(UsageError) as refused:
        create_batch(conn, "t", wishes)
    assert refused.value.field == "[1].max_runs"
