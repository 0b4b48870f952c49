"""Idempotent requests: the same key with the same body gives the same job, DAG or run, for 24 hours.

The key is taken in the transaction that does the work: both are there, or neither. A second request waits
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
    """The job that `make` makes of this body, or the one that it made for the same key before."""
    answer, is_new = once(conn, tenant_id, key, key, body, lambda: text_of(make()))
    return Stored(id_of(answer), is_new)


def once_of_job(
    conn: Connection[Any],
    tenant_id: str,
    key: str | None,
    of: tuple[str, bytes],
    body: bytes,
    make: Callable[[], Any],
) -> Any:
    """What `make` answers to something asked `of` a job (what, and of which): each job has keys of its own.
    Without a key it is asked anew."""
    if key is None:
        return make()
    what, job_id = of
    answer, _ = once(conn, tenant_id, key, f"{what} {text_of(job_id)} {key}", body, make)
    return answer


def once(
    conn: Connection[Any], tenant_id: str, said: str, key: str, body: bytes, make: Callable[[], Any]
) -> tuple[Any, bool]:
    """What `make` answers to this body, and whether it was made now; `said` is the key as it was sent."""
    body_hash = blake2b(body, digest_size=16).digest()
    values = {"tenant_id": tenant_id, "key": key, "body_hash": body_hash}
    if conn.execute(sql("take_key"), values).rowcount:
        answer = make()
        conn.execute(sql("answer_key"), values | {"answer": Json(answer)})
        return answer, True
    ((known_hash, answer),) = conn.execute(sql("known_key"), values)
    if bytes(known_hash) != body_hash:
        problem = f"idempotency_key: {said!r} was used for another body; choose another key"
        raise ConflictError(problem, field="idempotency_key")
    return answer, False
