"""An asynchronous psycopg connection, as our statements want it: plain calls, from a worker thread.

The statements are written once, for blocking connections. Here each hops back to the event loop that owns the
connection, and its rows are fetched before it returns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio.from_thread


class Bridge:
    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @property
    def row_factory(self) -> Any:
        return self._conn.row_factory

    @row_factory.setter
    def row_factory(self, factory: Any) -> None:
        self._conn.row_factory = factory

    def execute(self, *args: Any, **kwargs: Any) -> Fetched:
        return anyio.from_thread.run(partial(self._execute, *args, **kwargs))

    async def _execute(self, *args: Any, **kwargs: Any) -> Fetched:
        cursor = await self._conn.execute(*args, **kwargs)
        rows = await cursor.fetchall() if cursor.description is not None else []
        return Fetched(rows, cursor.rowcount)


class Fetched:
    """What a cursor is to our statements."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def fetchone(self) -> Any:
        return next(self._rows, None)
