"""Nothing of one tenant can be read or changed by another, whatever statement the API sends."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from shardwheel.compose.postgres import PostgresServer
from tests.integration.store.blocking import Connection
from tests.servers import fresh_database

pytestmark = pytest.mark.servers

CREATE_JOB = "INSERT INTO shardwheel.jobs (job_id, tenant_id, partition) VALUES (%s, %s, 7)"
OURS, THEIRS = uuid.uuid4(), uuid.uuid4()


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """One for this file, with a job of each of two tenants: no test here can change those."""
    with fresh_database(postgres_server, migrated_template) as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute(CREATE_JOB, [OURS, "acme"])
            connection.execute(CREATE_JOB, [THEIRS, "rival"])
        yield dsn


@pytest.fixture
def connection(shared_database: str) -> Iterator[Connection]:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        yield connection


@contextmanager
def as_role(connection: Connection, role: str, tenant: str | None = None) -> Iterator[None]:
    """As the services do it: role and tenant hold for one transaction."""
    with connection.transaction():
        connection.execute("SELECT set_config('role', %s, true)", [role])
        if tenant is not None:
            connection.execute("SELECT set_config('shardwheel.tenant', %s, true)", [tenant])
        yield


def column(connection: Connection, query: str) -> list[Any]:
    return [row[0] for row in connection.execute(query.encode())]


def test_every_table_of_tenants_is_closed_to_others(connection: Connection) -> None:
    """A table added later without its policy would be open: this finds it."""
    of_tenants = column(
        connection,
        """SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
            WHERE c.relnamespace = 'shardwheel'::regnamespace AND c.relkind IN ('r', 'p')
              AND NOT c.relispartition AND a.attname = 'tenant_id'""",
    )
    closed = column(
        connection,
        """SELECT c.relname FROM pg_class AS c JOIN pg_policies AS p ON p.tablename = c.relname
            WHERE c.relrowsecurity AND p.schemaname = 'shardwheel' AND p.policyname = 'own_tenant'
              AND p.roles = '{shardwheel_api}' AND p.cmd = 'ALL'
              AND p.qual LIKE '%tenant_id = current_setting%' AND p.with_check = p.qual""",
    )
    assert len(of_tenants) >= 15
    assert sorted(closed) == sorted(of_tenants)


def test_what_the_api_reads_without_a_tenant_is_the_clusters(connection: Connection) -> None:
    """A table without a tenant_id has no policy: whatever of a tenant stood there, everybody could read."""
    open_to_all = column(
        connection,
        """SELECT c.relname FROM pg_class AS c
            WHERE c.relnamespace = 'shardwheel'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
              AND NOT c.relrowsecurity AND has_table_privilege('shardwheel_api', c.oid, 'SELECT')
            ORDER BY c.relname""",
    )
    assert open_to_all == ["alerts", "cluster", "migrations", "partitions", "workers"]


def test_the_migrator_owns_everything(connection: Connection) -> None:
    """A file that forgets to become the migrator leaves things that the next deployer can't change."""
    others = column(
        connection,
        """SELECT relname FROM pg_class WHERE relnamespace = 'shardwheel'::regnamespace
              AND relowner <> 'shardwheel_migrator'::regrole AND relkind <> 'i' AND relname <> 'migrations'
           UNION ALL
           SELECT proname FROM pg_proc WHERE pronamespace = 'shardwheel'::regnamespace
              AND proowner <> 'shardwheel_migrator'::regrole""",
    )
    assert others == []


def test_another_tenants_rows_are_invisible(connection: Connection) -> None:
    with as_role(connection, "shardwheel_api", "acme"):
        assert column(connection, "SELECT job_id FROM shardwheel.jobs") == [OURS]


@pytest.mark.parametrize("tenant", [None, ""])
def test_without_a_tenant_there_is_nothing(connection: Connection, tenant: str | None) -> None:
    with as_role(connection, "shardwheel_api", tenant):
        assert column(connection, "SELECT job_id FROM shardwheel.jobs") == []


def test_another_tenants_rows_can_not_be_changed(connection: Connection) -> None:
    with as_role(connection, "shardwheel_api", "acme"):
        changed = connection.execute(
            "UPDATE shardwheel.jobs SET state = 'deleted' WHERE job_id = %s", [THEIRS]
        )
        assert changed.rowcount == 0
    assert column(connection, "SELECT DISTINCT state FROM shardwheel.jobs") == ["active"]


def test_nothing_is_stored_for_another_tenant(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        with as_role(connection, "shardwheel_api", "acme"):
            connection.execute(CREATE_JOB, [uuid.uuid4(), "rival"])
    # A row of one's own can't be given away either.
    connection.execute("INSERT INTO shardwheel.task_types (tenant_id, task) VALUES ('acme', 'email.send')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        with as_role(connection, "shardwheel_api", "acme"):
            connection.execute("UPDATE shardwheel.task_types SET tenant_id = 'rival'")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 FROM shardwheel.executions_default",  # a month's table has no policy of its own
        "UPDATE shardwheel.partitions SET epoch = epoch + 1",
        "DELETE FROM shardwheel.jobs",
        "DELETE FROM shardwheel.audit",
        "SELECT shardwheel.drop_months('2001-01-01Z')",
        "CREATE TABLE shardwheel.mine ()",
    ],
)
def test_the_api_may_not(connection: Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        with as_role(connection, "shardwheel_api", "acme"):
            connection.execute(statement.encode())


def test_the_services_see_everyone_and_may_copy(connection: Connection) -> None:
    copied = uuid.uuid4()
    with as_role(connection, "shardwheel_system"):
        with connection.cursor() as cursor:
            with cursor.copy("COPY shardwheel.jobs (job_id, tenant_id, partition) FROM STDIN") as copy:
                copy.write_row((copied, "third", 8))
        assert set(column(connection, "SELECT job_id FROM shardwheel.jobs")) == {OURS, THEIRS, copied}
        assert column(connection, "SELECT shardwheel.make_months(1)") == [[]]
