"""The schema explains itself, and says the same words as the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

import psycopg
import pytest

from shardwheel.compose.postgres import PostgresServer
from shardwheel.execution import WAITING_STATES, ExecutionState, Origin
from shardwheel.job import JobState, Misfire, Pool
from shardwheel.partition import PARTITIONS
from tests.integration.store.blocking import Connection
from tests.servers import fresh_database

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """One for this file: its tests only read."""
    with fresh_database(postgres_server, migrated_template) as dsn:
        yield dsn


@pytest.fixture
def connection(shared_database: str) -> Iterator[Connection]:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        yield connection


def column(connection: Connection, query: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(query.encode())]


def test_every_table_and_function_has_a_comment(connection: Connection) -> None:
    uncommented = column(
        connection,
        """SELECT relname FROM pg_class WHERE relnamespace = 'shardwheel'::regnamespace
              AND relkind IN ('r', 'p', 'v') AND obj_description(oid, 'pg_class') IS NULL
           UNION ALL
           SELECT proname FROM pg_proc WHERE pronamespace = 'shardwheel'::regnamespace
              AND obj_description(oid, 'pg_proc') IS NULL""",
    )
    assert uncommented == []


def test_what_the_protocols_rely_on_has_a_comment(connection: Connection) -> None:
    """By how they are named; the rest explains itself (tenant_id, created_at, …)."""
    uncommented = column(
        connection,
        """SELECT c.relname || '.' || a.attname
             FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
            WHERE c.relname IN ('partitions', 'jobs', 'executions', 'work_rows')
              AND a.attname ~ '(_xid|_no|through_ms|floor_ms|_until|_token|epoch|generation|_from|due_at)$'
              AND col_description(c.oid, a.attnum) IS NULL""",
    )
    assert set(uncommented) <= {"work_rows.schedule_no"}


@pytest.mark.parametrize(
    ("table", "name", "words"),
    [
        ("jobs", "state", JobState),
        ("jobs", "pool", Pool),
        ("jobs", "misfire", Misfire),
        ("executions", "state", ExecutionState),
        ("executions", "origin", Origin),
    ],
)
def test_a_column_allows_the_words_of_the_code(
    connection: Connection, table: str, name: str, words: type[StrEnum]
) -> None:
    (check,) = column(
        connection,
        f"""SELECT pg_get_constraintdef(oid) FROM pg_constraint
             WHERE conrelid = 'shardwheel.{table}'::regclass AND conname = '{table}_{name}_check'""",  # noqa: S608
    )
    assert set(re.findall(r"'(\w+)'", check)) == set(words)


def test_the_feeds_index_holds_what_waits(connection: Connection) -> None:
    (index,) = column(connection, "SELECT pg_get_indexdef('shardwheel.executions_feed'::regclass)")
    assert set(re.findall(r"'(\w+)'", index)) == set(WAITING_STATES)


def test_every_partition_has_its_row_from_the_start(connection: Connection) -> None:
    found = column(connection, "SELECT partition FROM shardwheel.partitions ORDER BY partition")
    assert found == [str(partition) for partition in range(PARTITIONS)]


def test_times_are_inlined(connection: Connection) -> None:
    plan = column(
        connection,
        "EXPLAIN VERBOSE SELECT shardwheel.ms(effective_from), shardwheel.at(version) FROM shardwheel.jobs",
    )
    assert not re.search(r"shardwheel\.(ms|at)\(", "\n".join(plan))
