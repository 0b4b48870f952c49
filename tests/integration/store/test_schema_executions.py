"""Executions by month: every id finds its place, months are made and dropped under the feet of claims."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from shardwheel.ids import fire_id, first_id_at
from tests.integration.store.blocking import Connection, blocked

pytestmark = pytest.mark.servers

JOB = uuid.UUID("0190a1b2-0000-7000-8000-000000000001")
MARCH_2001_MS = 984_000_000_000  # 2001-03-07T21:20:00Z: no month is made for it


@pytest.fixture
def connection(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        yield connection


def insert(connection: Connection, scheduled_ms: int, state: str = "queued", partition: int = 7) -> uuid.UUID:
    execution_id = uuid.UUID(bytes=fire_id(JOB.bytes, partition, scheduled_ms))
    connection.execute(
        """INSERT INTO shardwheel.executions
             (execution_id, tenant_id, partition, job_id, kind, origin, state, scheduled_at, due_at)
           VALUES (%(id)s, 'acme', %(partition)s, %(job)s, 0, 'schedule', %(state)s,
             shardwheel.at(%(ms)s), shardwheel.at(%(ms)s))""",
        {"id": execution_id, "partition": partition, "job": JOB, "state": state, "ms": scheduled_ms},
    )
    return execution_id


def one(connection: Connection, query: str, *values: object) -> Any:
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return row[0]


def table_of(connection: Connection, execution_id: uuid.UUID) -> str:
    found = one(
        connection,
        "SELECT tableoid::regclass FROM shardwheel.executions WHERE execution_id = %s",
        execution_id,
    )
    return str(found).removeprefix("shardwheel.")


def changed_xid(connection: Connection, execution_id: uuid.UUID) -> int | None:
    found = one(
        connection,
        "SELECT changed_xid::text::bigint FROM shardwheel.executions WHERE execution_id = %s",
        execution_id,
    )
    assert found is None or isinstance(found, int)
    return found


def set_state(connection: Connection, execution_id: uuid.UUID, state: str) -> int:
    return connection.execute(
        "UPDATE shardwheel.executions SET state = %s WHERE execution_id = %s", [state, execution_id]
    ).rowcount


def make_march(connection: Connection) -> None:
    """As make_months does it; in a transaction that the caller ends."""
    connection.execute("LOCK TABLE ONLY shardwheel.executions IN ACCESS EXCLUSIVE MODE")
    connection.execute("SELECT shardwheel.make_month('2001-03-01Z')")


def test_what_waits_is_seen_by_the_feed(connection: Connection) -> None:
    running = insert(connection, MARCH_2001_MS, "running")
    assert changed_xid(connection, running) is None
    with connection.transaction():
        set_state(connection, running, "retry_wait")
        xid = one(connection, "SELECT pg_current_xact_id()::text::bigint")
    assert changed_xid(connection, running) == xid
    set_state(connection, running, "running")
    assert changed_xid(connection, running) == xid
    set_state(connection, running, "queued")
    assert (changed_xid(connection, running) or 0) > xid


def test_nobody_forges_the_feed(connection: Connection) -> None:
    queued = insert(connection, MARCH_2001_MS)
    connection.execute("UPDATE shardwheel.executions SET changed_xid = '5'")
    assert (changed_xid(connection, queued) or 0) > 5


def test_a_second_fire_of_the_same_time_meets_the_first(connection: Connection) -> None:
    insert(connection, MARCH_2001_MS)
    with pytest.raises(psycopg.errors.UniqueViolation):
        insert(connection, MARCH_2001_MS)


def test_an_execution_lives_in_its_month_or_in_the_default(connection: Connection) -> None:
    now_ms = one(connection, "SELECT shardwheel.now_ms()")
    month = one(connection, "SELECT to_char(shardwheel.at(%s) AT TIME ZONE 'UTC', 'YYYY_MM')", now_ms)
    assert table_of(connection, insert(connection, now_ms)) == f"executions_{month}"
    assert table_of(connection, insert(connection, MARCH_2001_MS)) == "executions_default"
    assert table_of(connection, insert(connection, 2**48 - 1)) == "executions_default"


def test_bounds_are_those_of_the_ids(connection: Connection) -> None:
    for ms in (0, 1, MARCH_2001_MS, 2**48 - 1):
        assert one(connection, "SELECT shardwheel.id_floor(shardwheel.at(%s))", ms).bytes == first_id_at(ms)
        assert one(connection, "SELECT shardwheel.ms(shardwheel.at(%s))", ms) == ms


def test_a_new_month_takes_its_rows_out_of_the_default_as_they_are(connection: Connection) -> None:
    first_ms = one(connection, "SELECT shardwheel.ms('2001-03-01Z')")
    end_ms = one(connection, "SELECT shardwheel.ms('2001-04-01Z')")
    inside = [insert(connection, ms) for ms in (first_ms, MARCH_2001_MS, end_ms - 1)]
    outside = [insert(connection, ms) for ms in (first_ms - 1, end_ms)]
    seen = [changed_xid(connection, execution_id) for execution_id in inside]
    with connection.transaction():
        make_march(connection)
    assert {table_of(connection, execution_id) for execution_id in inside} == {"executions_2001_03"}
    assert {table_of(connection, execution_id) for execution_id in outside} == {"executions_default"}
    assert [changed_xid(connection, execution_id) for execution_id in inside] == seen
    # The month has the trigger too, and its own free space for updates in place.
    set_state(connection, inside[0], "retry_wait")
    assert (changed_xid(connection, inside[0]) or 0) > (seen[0] or 0)
    assert one(
        connection, "SELECT reloptions FROM pg_class WHERE oid = 'shardwheel.executions_2001_03'::regclass"
    ) == ["fillfactor=50"]


def test_a_claim_that_meets_the_making_of_its_month_finds_its_row(
    connection: Connection, migrated_database: str
) -> None:
    execution_id = insert(connection, MARCH_2001_MS)
    with psycopg.connect(migrated_database) as maker:
        make_march(maker)
        with blocked(migrated_database, lambda second: set_state(second, execution_id, "running")) as claimed:
            maker.commit()
    assert claimed.result() == 1
    assert table_of(connection, execution_id) == "executions_2001_03"


def test_months_are_made_once_by_two_at_once(connection: Connection, migrated_database: str) -> None:
    def make(second: Connection) -> list[str]:
        made = one(second, "SELECT shardwheel.make_months(5)")
        assert isinstance(made, list)
        return made

    with psycopg.connect(migrated_database) as first:
        made = make(first)
        with blocked(migrated_database, make) as other:
            first.commit()
    assert len(made) >= 2, "the migration made three months ahead"
    assert other.result() == []
    last = one(
        connection,
        "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhrelid::regclass::text ~ %s",
        r"\d_\d\d$",
    )
    assert last == f"shardwheel.{made[-1]}"


def test_making_months_gives_up_rather_than_hold_up_every_claim(
    connection: Connection, migrated_database: str
) -> None:
    with psycopg.connect(migrated_database) as reader:
        reader.execute("SELECT 1 FROM shardwheel.executions")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute("SELECT shardwheel.make_months(9)")
    assert one(connection, "SELECT shardwheel.make_months(9)")


def test_old_months_are_dropped_but_not_what_is_unfinished(connection: Connection) -> None:
    with connection.transaction():
        make_march(connection)
    over = insert(connection, MARCH_2001_MS, "succeeded", partition=1)
    kept = {
        insert(connection, MARCH_2001_MS, state, partition)
        for partition, state in enumerate(("queued", "held", "running", "retry_wait"), start=2)
    }
    assert one(connection, "SELECT shardwheel.drop_months('2001-03-31T23:59:59Z')") == []
    assert one(connection, "SELECT shardwheel.drop_months('2001-04-01Z')") == ["executions_2001_03"]
    assert {table_of(connection, execution_id) for execution_id in kept} == {"executions_default"}
    assert one(connection, "SELECT count(*) FROM shardwheel.executions WHERE execution_id = %s", over) == 0
    assert one(connection, "SELECT to_regclass('shardwheel.executions_2001_03')") is None


def test_a_heartbeat_is_written_in_place(connection: Connection) -> None:
    with connection.transaction():
        insert(connection, MARCH_2001_MS, "running")
        connection.execute(
            """UPDATE shardwheel.executions
                  SET lease_until = now(), progress = '0.5', checkpoint = '{"row": 7}',
                      reported_generation = 'g', reported_partition = 1, reported_offset = 9"""
        )
        # Counted inside the transaction, so nothing has to arrive from anywhere.
        hot = one(
            connection,
            "SELECT n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'executions_default'",
        )
    assert hot == 1
