"""How a command talks to the store: as whom, on whose behalf, in one transaction."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from shardwheel.commands.context import current_settings, require
from shardwheel.errors import UnavailableError
from shardwheel.store.audit import Actor

TENANT = "default"


@contextmanager
def connection(data: Path | None) -> Iterator[psycopg.Connection[Any]]:
    """One transaction, committed when the command has done its work."""
    settings = current_settings(data)
    require(settings, "postgres_dsn")
    try:
        with psycopg.connect(settings.postgres_dsn, connect_timeout=5) as conn:
            yield conn
    except psycopg.OperationalError as error:
        raise UnavailableError(f"PostgreSQL is out of reach: {str(error).strip()}") from error


def at_the_terminal() -> Actor:
    """Whoever sits here, for the audit: who may reach the database may do everything."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return Actor(f"shardctl/{user}", "admin")
