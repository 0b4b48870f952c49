"""A job as a row of the caller's own transaction: no HTTP, and no second system in the caller's way.

    with psycopg.connect(dsn) as conn:
        conn.execute("INSERT INTO orders …")
        client.enqueue("welcome", {"order": 7}, conn=conn)      # commits with the order, or not at all

It is stored by the function `shardwheel.enqueue`, which the caller's login may call and which knows its
tenants: it needs no right on our tables. Nobody is poked: the shard reads the change within a second of the
commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, DatabaseError
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from shardwheel.client.answers import Job
from shardwheel.client.calls import plain
from shardwheel.client.script import Query, Script
from shardwheel.errors import (
    ConflictError,
    ForbiddenError,
    LimitedError,
    TooLargeError,
    UnavailableError,
    UsageError,
)
from shardwheel.ids import new_job_id
from shardwheel.partition import partition_of
from shardwheel.posting import JobPosting, parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.creation import Found
from shardwheel.store.failures import one_line
from shardwheel.store.forms import timing_columns
from shardwheel.store.job_row import JobRow
from shardwheel.store.sql import sql
from shardwheel.times import refuse
from shardwheel.timing import PostedTiming

# What the function raises, by the status that the API would answer with.
_REFUSALS: dict[str, type[UsageError]] = {
    "SW400": UsageError,
    "SW403": ForbiddenError,
    "SW409": ConflictError,
    "SW413": TooLargeError,
    "SW429": LimitedError,
}
_NO_RIGHTS = "42501"
_NOT_MIGRATED = ("3F000", "42883")


def store(conn: Any, *, tenant: str, posted: Mapping[str, Any]) -> Script[Job]:
    posting = parse_posting(plain(posted))
    if posting.parents:
        refuse("parents", "can't be given with conn", "leave conn out: the API stores it")
    if posting.max_runs is not None and _commits_at_once(conn):
        refuse("max_runs", "wants a transaction, and conn is in autocommit", "use conn.transaction()")
    ((now_ms,),) = yield Query(conn, sql("now_ms"), {})
    timing = posting.timing(now_ms)
    wish = _Wish.of(posting, timing, tenant, now_ms)
    rows = yield Query(conn, sql("enqueue"), wish.parameters)
    found = _found(rows)
    if posting.max_runs is not None and found.job.job_id == wish.job_id:
        last_ms = timing.timing_from(found.job.effective_from_ms).last_ms
        limit = {"job_id": Uuid(wish.job_id), "last_ms": last_ms}
        found = _found((yield Query(conn, sql("limit_enqueued"), limit)))
    return msgspec.convert(found.as_read(), Job)


def fetch(query: Query) -> list[Any]:
    """On a cursor of our own: whatever rows and cursors the caller likes stay as they are."""
    conn: Connection[Any] = query.conn
    try:
        with Cursor(conn, row_factory=tuple_row) as cursor:
            return cursor.execute(query.statement, query.parameters).fetchall()
    except DatabaseError as error:
        raise _meant(error) from error


async def fetch_async(query: Query) -> list[Any]:
    """The same on an asynchronous connection, in the event loop that it belongs to."""
    conn: AsyncConnection[Any] = query.conn
    try:
        async with AsyncCursor(conn, row_factory=tuple_row) as cursor:
            return await (await cursor.execute(query.statement, query.parameters)).fetchall()
    except DatabaseError as error:
        raise _meant(error) from error


class _Wish(NamedTuple):
    """A job, and what the function is told of it."""

    job_id: bytes
    parameters: dict[str, Any]

    @classmethod
    def of(cls, posting: JobPosting, timing: PostedTiming, tenant: str, now_ms: int) -> _Wish:
        job_id, body = new_job_id(now_ms), msgspec.json.encode(posting, order="deterministic")
        parameters = {
            "tenant_id": tenant,
            "job_id": Uuid(job_id),
            "partition": partition_of(job_id),
            "job": msgspec.json.encode(posting.columns() | timing_columns(timing)).decode(),
            "params_bytes": len(msgspec.json.encode(posting.params)),
            "key": posting.idempotency_key,
            "body_hash": blake2b(body, digest_size=16).digest(),
        }
        return cls(job_id, parameters)


def _found(rows: list[Any]) -> Found:
    if not rows:
        raise ConflictError("idempotency_key: its job is gone; choose another key", field="idempotency_key")
    (row,) = rows
    return Found(JobRow._make(row[:-1]), row[-1])


def _commits_at_once(conn: Any) -> bool:
    return bool(conn.autocommit) and conn.info.transaction_status == TransactionStatus.IDLE


def _meant(error: DatabaseError) -> Exception:
    """What the function refuses, as the API would; all else is the caller's own affair with PostgreSQL."""
    state = error.diag.sqlstate or ""
    if state in _REFUSALS:
        return _REFUSALS[state](error.diag.message_primary or state, field=error.diag.column_name)
    if state == _NO_RIGHTS:
        remedy = "an operator allows it by: shardctl producer grant"
        return ForbiddenError(
            f"conn: its login may not store jobs ({one_line(error)}); {remedy}", field="conn"
        )
    if state in _NOT_MIGRATED:
        return UnavailableError(
            f"this database does not take jobs ({one_line(error)}); run: shardctl migrate"
        )
    return error
