"""The producer client. In this version: inside the caller's own transaction.

    with psycopg.connect(dsn) as conn:
        conn.execute("INSERT INTO orders …")
        client.enqueue("welcome", {"order": 7}, conn=conn)      # commits with the order, or not at all

No HTTP and no second system in the caller's way: the job is a row of the same commit. (Over HTTP, without
`conn`, with the API.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from shardwheel.ids import text_of
from shardwheel.posting import parse_posting
from shardwheel.store.idempotency import create_job_once


class Client:
    def __init__(self, *, tenant: str = "default") -> None:
        self._tenant = tenant

    def create_job(
        self, task: str, params: Mapping[str, Any] | None = None, *, conn: Connection[Any], **fields: Any
    ) -> str:
        """Store a job in the caller's transaction; its id. `fields` are those of a job as posted."""
        posting = parse_posting({"task": task, "params": dict(params or {}), **fields})
        with _plain_rows(conn):
            return text_of(create_job_once(conn, self._tenant, posting))

    def enqueue(
        self,
        task: str,
        params: Mapping[str, Any] | None = None,
        *,
        conn: Connection[Any],
        delay: float | str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> str:
        """Run a task once: now, or after `delay` (seconds, or a text such as "5m")."""
        once = {"delay": delay, "idempotency_key": idempotency_key}
        return self.create_job(task, params, conn=conn, **once, **fields)


@contextmanager
def _plain_rows(conn: Connection[Any]) -> Iterator[None]:
    """Our statements read tuples, whatever rows the caller likes."""
    liked, conn.row_factory = conn.row_factory, tuple_row
    try:
        yield
    finally:
        conn.row_factory = liked
