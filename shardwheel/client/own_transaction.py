"""A job as a row of the caller's own transaction: no HTTP, and no second system in the caller's way.

    with psycopg.connect(dsn) as conn:
        conn.execute("INSERT INTO orders …")
        client.enqueue("welcome", {"order": 7}, conn=conn)      # commits with the order, or not at all

Nobody is poked: the job's shard reads the change within a second of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from shardwheel.client.answers import Job
from shardwheel.client.calls import plain
from shardwheel.posting import parse_posting
from shardwheel.store.creation import read_jobs
from shardwheel.store.idempotency import create_job_once


def store(conn: Connection[Any], *, tenant: str, posted: Mapping[str, Any]) -> Job:
    posting = parse_posting(plain(posted))
    with _plain_rows(conn):
        (found,) = read_jobs(conn, tenant, [create_job_once(conn, tenant, posting)])
    assert found is not None
    return msgspec.convert(found.as_read(), Job)


@contextmanager
def _plain_rows(conn: Connection[Any]) -> Iterator[None]:
    """Our statements read tuples, whatever rows the caller likes."""
    liked, conn.row_factory = conn.row_factory, tuple_row
    try:
        yield
    finally:
        conn.row_factory = liked
