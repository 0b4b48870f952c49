"""Brings the schema up to this version: numbered SQL files, each applied once, in its own transaction.

Files are additive, so the version before keeps running meanwhile, and a service runs on a database that is
newer than itself. An applied file is never edited: its checksum is in the table `shardwheel.migrations`, and
a difference is refused. Nothing is ever taken back; a mistake is mended by the next file.

Each transaction takes an advisory lock and looks again at what is applied: two that run at once share the
work in some order, and a crash leaves whole files only.

    0001_roles.sql, 0002_ground.sql applied; the code knows four  →  migrate() applies and returns 0003, 0004
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from shardwheel.errors import UnavailableError, UsageError

Connection = psycopg.Connection[Any]

FOLDER = Path(__file__).parent / "migrations"
_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    """One numbered file. `sql` is empty when only the database knows it."""

    number: int
    name: str
    sha256: str
    sql: str = ""


class SchemaState(NamedTuple):
    """What doctor shows. `pending` asks for `shardctl migrate`; `newer` is fine for a running service (files
    are additive) but not for `shardctl migrate`; `changed` means that an applied file was edited."""

    applied: list[Migration]
    pending: list[Migration]
    newer: list[Migration]
    changed: list[Migration]


def known_migrations(folder: Path = FOLDER) -> list[Migration]:
    """The files of this version, in order. Line ends do not count: a checkout may have changed them."""
    found = []
    for path in sorted(folder.iterdir()):
        if match := _FILE_NAME.fullmatch(path.name):
            text = path.read_text(encoding="utf-8")
            found.append(Migration(int(match[1]), match[2], sha256(text.encode()).hexdigest(), text))
    return found


def migrate(connection: Connection, dry_run: bool = False, folder: Path = FOLDER) -> list[Migration]:
    """Apply what is missing and return it; with `dry_run` return it only, and write nothing at all.

    The connection must not be inside a transaction. `UsageError` if the database is newer than this version,
    if an applied file changed, or if the role may not do this.
    """
    known = known_migrations(folder)
    with _errors():
        pending = _pending(_compare(connection, folder))
        if dry_run:
            return pending
        _make_ledger(connection)
        return [migration for migration in known if _apply(connection, migration, folder)]


def schema_state(connection: Connection, folder: Path = FOLDER) -> SchemaState:
    """Compare the database with the files. Writes nothing, waits for nobody."""
    with _errors():
        return _compare(connection, folder)


def _compare(connection: Connection, folder: Path) -> SchemaState:
    known = {migration.number: migration for migration in known_migrations(folder)}
    applied = _applied(connection)
    numbers = {migration.number for migration in applied}
    return SchemaState(
        applied=applied,
        pending=[migration for migration in known.values() if migration.number not in numbers],
        newer=[migration for migration in applied if migration.number not in known],
        changed=[
            migration
            for migration in applied
            if migration.number in known and known[migration.number].sha256 != migration.sha256
        ],
    )


def _pending(state: SchemaState) -> list[Migration]:
    if state.newer:
        raise UsageError(
            f"the database has migration {_title(state.newer[-1])}, which this version does not know: "
            "run `shardctl migrate` of the newer version"
        )
    if state.changed:
        raise UsageError(
            f"migration {_title(state.changed[0])} was applied to the database with another content: "
            "put the file back as it was, and make the change in a new one"
        )
    return state.pending


def _make_ledger(connection: Connection) -> None:
    with connection.transaction():
        connection.execute(_statement("lock"))
        if not _ledger_exists(connection):
            connection.execute(_statement("ledger"))


def _apply(connection: Connection, migration: Migration, folder: Path) -> bool:
    """True when this call applied it; false when it was there, perhaps by another process a moment ago."""
    with connection.transaction():
        connection.execute(_statement("lock"))
        if migration.number not in {pending.number for pending in _pending(_compare(connection, folder))}:
            return False
        connection.execute(migration.sql.encode())
        connection.execute(_statement("record"), migration._asdict())
        return True


def _applied(connection: Connection) -> list[Migration]:
    with connection.transaction():
        if not _ledger_exists(connection):
            return []
        return [Migration(*row) for row in connection.execute(_statement("applied"))]


def _ledger_exists(connection: Connection) -> bool:
    row = connection.execute(_statement("ledger_exists")).fetchone()
    return row is not None and bool(row[0])


@cache
def _statement(name: str) -> bytes:
    return (FOLDER / f"{name}.sql").read_bytes()


def _title(migration: Migration) -> str:
    return f"{migration.number:04}_{migration.name}"


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise UsageError(f"the database refuses to migrate: {_first_line(error)}") from error
    except psycopg.errors.LockNotAvailable as error:
        raise UnavailableError(
            "another migration, or a long transaction, holds a lock: try again later"
        ) from error
    except psycopg.OperationalError as error:
        raise UnavailableError(
            f"PostgreSQL is out of reach: {_first_line(error)}", maybe_applied=True
        ) from error


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().splitlines()[0]
