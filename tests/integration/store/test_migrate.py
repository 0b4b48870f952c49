"""Migrations: each file once, in order, whole or not at all; by two at once, by an ordinary role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shardwheel.compose.postgres import PostgresServer
from shardwheel.errors import UsageError
from shardwheel.store.migrate import Migration, known_migrations, migrate, schema_state
from tests.integration.store.blocking import LIMIT_S, Connection

pytestmark = pytest.mark.servers


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small files of our own."""
    write(tmp_path, "0001_first.sql", "CREATE TABLE shardwheel.first ()")
    write(tmp_path, "0002_second.sql", "CREATE TABLE shardwheel.second ()")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def numbers(migrations: list[Migration]) -> list[int]:
    return [migration.number for migration in migrations]


def table_exists(connection: Connection, name: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f"shardwheel.{name}"]).fetchone()
    return row == (True,)


def test_the_files_are_numbered_without_a_gap() -> None:
    assert numbers(known_migrations()) == list(range(1, len(known_migrations()) + 1))


def test_all_of_ours_are_applied_once(connection: Connection) -> None:
    assert migrate(connection) == known_migrations()
    assert migrate(connection) == []
    state = schema_state(connection)
    assert numbers(state.applied) == numbers(known_migrations())
    assert state.pending == state.newer == state.changed == []


def test_a_dry_run_tells_and_writes_nothing(connection: Connection) -> None:
    assert migrate(connection, dry_run=True) == known_migrations()
    assert connection.execute("SELECT to_regnamespace('shardwheel')").fetchone() == (None,)


def test_two_at_once_apply_each_file_once(database: str) -> None:
    start = Barrier(2, timeout=LIMIT_S)

    def one_of_two() -> list[int]:
        with psycopg.connect(database) as connection:
            start.wait()
            return numbers(migrate(connection))

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(one_of_two) for _ in range(2)]
        applied = [number for future in both for number in future.result()]
    assert sorted(applied) == numbers(known_migrations())


def test_only_what_is_new_is_applied(connection: Connection, folder: Path) -> None:
    migrate(connection, folder=folder)
    write(folder, "0003_third.sql", "CREATE TABLE shardwheel.third ()")
    write(folder, "notes.sql", "this is no migration")
    assert numbers(schema_state(connection, folder).pending) == [3]
    assert numbers(migrate(connection, folder=folder)) == [3]
    assert table_exists(connection, "third")


def test_a_file_that_fails_leaves_nothing_of_itself_and_keeps_those_before(
    connection: Connection, folder: Path
) -> None:
    write(folder, "0002_second.sql", "CREATE TABLE shardwheel.second (); SELECT 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(connection, folder=folder)
    assert numbers(schema_state(connection, folder).applied) == [1]
    assert not table_exists(connection, "second")
    write(folder, "0002_second.sql", "CREATE TABLE shardwheel.second ()")
    assert numbers(migrate(connection, folder=folder)) == [2]


def test_an_applied_file_that_changed_is_refused(connection: Connection, folder: Path) -> None:
    migrate(connection, folder=folder)
    write(folder, "0001_first.sql", "CREATE TABLE shardwheel.other ()")
    with pytest.raises(UsageError, match=r"0001_first was applied .* with another content") as refused:
        migrate(connection, folder=folder)
    assert "\n" not in str(refused.value)
    assert numbers(schema_state(connection, folder).changed) == [1]


def test_a_newer_database_is_not_migrated(connection: Connection, folder: Path) -> None:
    migrate(connection, folder=folder)
    (folder / "0002_second.sql").unlink()
    with pytest.raises(UsageError, match="0002_second, which this version does not know") as refused:
        migrate(connection, dry_run=True, folder=folder)
    assert "\n" not in str(refused.value)
    assert numbers(schema_state(connection, folder).newer) == [2]


def test_an_ordinary_role_can_migrate(own_postgres: Callable[[], PostgresServer]) -> None:
    """A server of its own: roles belong to the whole server, and here they must be missing."""
    server = own_postgres()
    with psycopg.connect(server.dsn, autocommit=True) as administrator:
        administrator.execute("CREATE ROLE hosted LOGIN CREATEROLE PASSWORD 'hosted'")
        administrator.execute("CREATE ROLE poor LOGIN PASSWORD 'poor'")
        administrator.execute("CREATE DATABASE hosted OWNER hosted")
        administrator.execute("CREATE DATABASE poor OWNER poor")
    with psycopg.connect(make_conninfo(server.dsn_of("poor"), user="poor", password="poor")) as connection:
        with pytest.raises(UsageError, match=r"poor may not create or use the role .* GRANT") as refused:
            migrate(connection)
        assert "\n" not in str(refused.value)
    with psycopg.connect(
        make_conninfo(server.dsn_of("hosted"), user="hosted", password="hosted")
    ) as connection:
        assert migrate(connection) == known_migrations()
        # One login is enough: as itself for the services, under row-level security for the API.
        connection.execute(
            "INSERT INTO shardwheel.task_types (tenant_id, task) VALUES ('acme', 'email.send')"
        )
        connection.execute(
            "SELECT set_config('role', 'shardwheel_api', true), set_config('shardwheel.tenant', 'x', true)"
        )
        assert connection.execute("SELECT task FROM shardwheel.task_types").fetchall() == []
