"""The trigger on jobs: every change is seen by the feed, every state of a schedule has its own name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

from shardwheel.compose.postgres import PostgresServer
from shardwheel.schedule import Definition, schedule_from
from tests.integration.store.blocking import Connection, blocked
from tests.servers import fresh_database

pytestmark = pytest.mark.servers

EVERY_30_S = schedule_from(Definition(every_ms=30_000)).text


class Names(NamedTuple):
    """What the firing protocol reads of a job."""

    version: int
    schedule_no: int
    schedule_xid: int
    changed_xid: int
    effective_from: datetime

    @property
    def schedule(self) -> tuple[int, int, datetime]:
        return self.schedule_no, self.schedule_xid, self.effective_from


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """One for this file: every test has a job of its own."""
    with fresh_database(postgres_server, migrated_template) as dsn:
        yield dsn


@pytest.fixture
def connection(shared_database: str) -> Iterator[Connection]:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        yield connection


def create(connection: Connection, **columns: Any) -> uuid.UUID:
    """A job with these columns, beside those that every job must have."""
    job_id = uuid.uuid4()
    values = {"job_id": job_id, "tenant_id": "acme", "partition": 7, "task": "report.build"} | columns
    connection.execute(
        sql.SQL("INSERT INTO shardwheel.jobs ({}) VALUES ({})").format(
            sql.SQL(", ").join(map(sql.Identifier, values)), sql.SQL(", ").join(map(sql.Placeholder, values))
        ),
        values,
    )
    return job_id


def update(connection: Connection, job_id: uuid.UUID, assignment: str) -> None:
    """`assignment` is this file's own text."""
    statement = f"UPDATE shardwheel.jobs SET {assignment} WHERE job_id = %s"  # noqa: S608
    assert connection.execute(statement.encode(), [job_id]).rowcount == 1


def names(connection: Connection, job_id: uuid.UUID) -> Names:
    row = connection.execute(
        """SELECT version, schedule_no, schedule_xid::text::bigint, changed_xid::text::bigint, effective_from
             FROM shardwheel.jobs WHERE job_id = %s""",
        [job_id],
    ).fetchone()
    assert row is not None
    return Names(*row)


def scalar(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def clock(connection: Connection) -> datetime:
    """The database's clock, in whole milliseconds."""
    found = scalar(connection, "SELECT date_trunc('milliseconds', clock_timestamp())")
    assert isinstance(found, datetime)
    return found


def test_creation_names_the_schedule_whatever_the_caller_says(connection: Connection) -> None:
    before = clock(connection)
    with connection.transaction():
        forged = datetime.fromisoformat("2001-01-01T00:00:00+00:00")
        job_id = create(
            connection, schedule_no=5, schedule_xid="5", changed_xid="5", effective_from=forged, version=9
        )
        xid = scalar(connection, "SELECT pg_current_xact_id()::text::bigint")
    made = names(connection, job_id)
    assert made.schedule_xid == made.changed_xid == xid
    assert made.schedule_no not in (0, 5)
    assert made.version == 1
    assert before <= made.effective_from <= clock(connection)
    assert made.effective_from.microsecond % 1000 == 0


@pytest.mark.parametrize("once", [Definition(), Definition(time_zone="Europe/Berlin")])
def test_a_once_in_the_past_holds_from_its_time(connection: Connection, once: Definition) -> None:
    text = schedule_from(once).text
    past = datetime.fromisoformat("2020-02-29T12:00:00+00:00")
    assert names(connection, create(connection, schedule=text, anchor_at=past)).effective_from == past
    before = clock(connection)
    later = create(connection, schedule=text, anchor_at=before + timedelta(days=9))
    assert before <= names(connection, later).effective_from <= clock(connection)


@pytest.mark.parametrize(
    "repeating", [Definition(every_ms=30_000), Definition(cron="0 9 * * *"), Definition(never=True)]
)
def test_any_other_job_holds_from_now_wherever_its_anchor_is(
    connection: Connection, repeating: Definition
) -> None:
    before = clock(connection)
    anchor = datetime.fromisoformat("2020-02-29T12:00:00+00:00")
    job_id = create(connection, schedule=schedule_from(repeating).text, anchor_at=anchor)
    assert before <= names(connection, job_id).effective_from <= clock(connection)


@pytest.mark.parametrize(
    "assignment",
    [
        """schedule = '{"every_ms":9000}'""",
        "anchor_at = '2030-01-01Z'",
        "start_at = '2030-01-01Z'",
        "end_at = '2030-01-01Z'",
        "last_at = '2030-01-01Z'",
        "max_runs = 3",
        "jitter_ms = 500",
        "state = 'paused'",
        "state = 'deleted'",
    ],
)
def test_a_change_of_the_schedule_gets_a_new_name(connection: Connection, assignment: str) -> None:
    job_id = create(connection, schedule=EVERY_30_S)
    old = names(connection, job_id)
    before = clock(connection)
    update(connection, job_id, assignment)
    new = names(connection, job_id)
    assert new.schedule_no not in (0, old.schedule_no)
    assert new.schedule_xid == new.changed_xid > old.changed_xid
    assert before <= new.effective_from <= clock(connection)
    assert new.version == old.version + 1


def test_other_edits_and_forgery_leave_the_schedule_alone(connection: Connection) -> None:
    job_id = create(connection, schedule=EVERY_30_S)
    old = names(connection, job_id)
    update(
        connection,
        job_id,
        """tags = '{a}', params = '{"n": 1}', timeout_ms = 5, pool = 'long', misfire = 'skip', name = 'n',
           schedule = '{"every_ms":30000}', schedule_no = 5, schedule_xid = '5', changed_xid = '5',
           effective_from = '2001-01-01Z', version = 77""",
    )
    new = names(connection, job_id)
    assert new.schedule == old.schedule
    assert new.changed_xid > old.changed_xid
    assert new.version == old.version + 1


def test_completion_keeps_the_name_for_late_fires_and_reopening_gets_a_new_one(
    connection: Connection,
) -> None:
    job_id = create(connection, schedule=EVERY_30_S)
    old = names(connection, job_id)
    update(connection, job_id, "state = 'completed'")
    completed = names(connection, job_id)
    assert completed.schedule == old.schedule
    assert completed.changed_xid > old.changed_xid, "the feed must take it out of the wheel"
    update(connection, job_id, "state = 'active'")
    assert names(connection, job_id).schedule_no != old.schedule_no


def test_the_end_of_max_runs_may_be_filled_in_by_the_transaction_that_made_the_schedule(
    connection: Connection,
) -> None:
    with connection.transaction():
        job_id = create(connection, schedule=EVERY_30_S, max_runs=3)
        made = names(connection, job_id)
        update(connection, job_id, "last_at = effective_from + interval '90 s'")
        assert names(connection, job_id).schedule == made.schedule
        update(connection, job_id, "state = 'paused'")
        assert names(connection, job_id).schedule_no != made.schedule_no


def test_effective_from_never_goes_back(connection: Connection) -> None:
    job_id = create(connection, schedule=EVERY_30_S)
    # As after a fail-over to a server whose clock is behind.
    connection.execute("ALTER TABLE shardwheel.jobs DISABLE TRIGGER jobs_before_change")
    update(connection, job_id, "effective_from = '2100-01-01Z'")
    connection.execute("ALTER TABLE shardwheel.jobs ENABLE TRIGGER jobs_before_change")
    update(connection, job_id, "state = 'paused'")
    assert names(connection, job_id).effective_from == datetime.fromisoformat("2100-01-01T00:00:00+00:00")


def test_effective_from_is_read_after_the_wait_for_claims(
    connection: Connection, shared_database: str
) -> None:
    job_id = create(connection, schedule=EVERY_30_S)

    def pause(second: Connection) -> None:
        update(second, job_id, "state = 'paused'")

    with psycopg.connect(shared_database) as claim:
        claim.execute("SELECT 1 FROM shardwheel.jobs WHERE job_id = %s FOR SHARE", [job_id])
        with blocked(shared_database, pause) as paused:
            # The claim goes on for a while: its executions belong to the time before the pause.
            claim_ended_at = clock(connection)
            claim.commit()
    paused.result()
    assert names(connection, job_id).effective_from >= claim_ended_at


def test_a_schedule_change_that_waited_for_another_counts_from_what_it_finds(
    connection: Connection, shared_database: str
) -> None:
    job_id = create(connection, schedule=EVERY_30_S)

    def edit(second: Connection) -> None:
        update(second, job_id, "tags = '{late}'")

    with psycopg.connect(shared_database) as first:
        update(first, job_id, "state = 'paused'")
        paused = names(first, job_id)
        with blocked(shared_database, edit) as edited:
            first.commit()
    edited.result()
    found = names(connection, job_id)
    assert found.schedule == paused.schedule, "the edit of tags must not bring back the old name"
    assert found.version == paused.version + 1


def test_what_commits_late_is_read_by_the_next_feed(connection: Connection, shared_database: str) -> None:
    slow, quick = create(connection), create(connection)
    with psycopg.connect(shared_database) as late:
        update(late, slow, "tags = '{slow}'")
        update(connection, quick, "tags = '{quick}'")
        horizon = scalar(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        late.commit()
    found = connection.execute(
        "SELECT job_id FROM shardwheel.jobs WHERE partition = 7 AND changed_xid >= %s::xid8", [horizon]
    ).fetchall()
    assert {row[0] for row in found} == {slow, quick}


@pytest.mark.parametrize(
    "assignment", ["job_id = gen_random_uuid()", "tenant_id = 'other'", "partition = 8", "kind = 'dag'"]
)
def test_what_names_a_job_never_changes(connection: Connection, assignment: str) -> None:
    job_id = create(connection)
    with pytest.raises(psycopg.errors.RestrictViolation, match="never change"):
        update(connection, job_id, assignment)


def test_deletion_is_dated_once(connection: Connection) -> None:
    job_id = create(connection)
    find = "SELECT deleted_at, updated_at FROM shardwheel.jobs WHERE job_id = %s"
    assert connection.execute(find, [job_id]).fetchall()[0][0] is None
    update(connection, job_id, "state = 'deleted'")
    ((deleted_at, updated_at),) = connection.execute(find, [job_id]).fetchall()
    assert deleted_at == updated_at
    update(connection, job_id, "tags = '{gone}'")
    assert connection.execute(find, [job_id]).fetchall()[0][0] == deleted_at


def test_schedule_numbers_are_64_random_bits(connection: Connection) -> None:
    drawn = [
        row[0]
        for row in connection.execute("SELECT shardwheel.random_number() FROM generate_series(1, 1000)")
    ]
    assert len(set(drawn)) == 1000
    everywhere_set = everywhere_clear = 0
    for number in drawn:
        everywhere_set |= number & (2**64 - 1)
        everywhere_clear |= ~number & (2**64 - 1)
    assert everywhere_set == everywhere_clear == 2**64 - 1
