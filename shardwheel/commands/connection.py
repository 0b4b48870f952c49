"""How a command that asks no API talks to PostgreSQL itself, and what it says where that refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from shardwheel.commands.context import current_settings, require
from shardwheel.errors import ConflictError, ForbiddenError, UnavailableError, UsageError
from shardwheel.store.failures import one_line


@contextmanager
def connection(data: Path | None, *, autocommit: bool = False) -> Iterator[psycopg.Connection[Any]]:
    """One transaction, committed when the command has done its work; or as many as it likes."""
    settings = current_settings(data)
    require(settings, "postgres_dsn")
    try:
        with psycopg.connect(settings.postgres_dsn, connect_timeout=5, autocommit=autocommit) as conn:
            yield conn
    except psycopg.errors.InsufficientPrivilege as error:
        remedy = "use the role that migrations run as"
        raise ForbiddenError(
            f"postgres_dsn: its login may not do that ({one_line(error)}); {remedy}", field="postgres_dsn"
        ) from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise ConflictError(
            f"postgres_dsn: that database has not our schema ({one_line(error)}); run: shardctl migrate",
            field="postgres_dsn",
        ) from error
    except psycopg.OperationalError as error:
        raise UnavailableError(f"PostgreSQL is out of reach: {one_line(error)}") from error
    except psycopg.ProgrammingError as error:
        if error.sqlstate is not None:
            raise
        raise UsageError(
            f"postgres_dsn: {one_line(error)}; write it as in postgresql://user@host:5432/name",
            field="postgres_dsn",
        ) from error
