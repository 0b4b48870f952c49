"""Idempotent creation: the same key with the same body gives the same job (or DAG), for 24 hours.

The key is taken in the transaction that creates the job: both are there, or neither. A second request waits
for the first one's commit at the primary key, and then finds its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection
from psycopg.types.json import Json

from shardwheel.errors import ConflictError
from shardwheel.ids import id_of, text_of
from shardwheel.posting import JobPosting
from shardwheel.store.children import store_jobs
from shardwheel.store.sql import sql


class Stored(NamedTuple):
    """A job that was made now, or by an earlier request with the same key."""

    job_id: bytes
    is_new: bool


def store_once(conn: Connection[Any], tenant_id: str, posting: JobPosting) -> Stored:
    def make() -> bytes:
        return store_jobs(conn, tenant_id, [posting])[0]

    if posting.idempotency_key is None:
        return Stored(make(), True)
    body = msgspec.json.encode(posting, order="deterministic")
    return make_once(conn, tenant_id, posting.idempotency_key, body, make)


def make_once(
    conn: Connection[Any], tenant_id: str, key: str, body: bytes, make: Callable[[], bytes]
) -> Stored:
    """What `make` makes of this body, or what it made for the same key before."""
    body_hash = blake2b(body, digest_size=16).digest()
    values = {"tenant_id": tenant_id, "key": key, "body_hash": body_hash}
    if conn.execute(sql("take_key"), values).rowcount:
        job_id = make()
        conn.execute(sql("answer_key"), values | {"answer": Json(text_of(job_id))})
        return Stored(job_id, True)
    ((known_hash, answer),) = conn.execute(sql("known_key"), values)
    if bytes(known_hash) != body_hash:
        problem = f"idempotency_key: {key!r} was used for another body; choose another key"
        raise ConflictError(problem, field="idempotency_key")
    return Stored(id_of(answer), False)
