"""Idempotent requests: the same key with the same body gives the same job, DAG or run, for 24 hours.

The key is taken in the transaction that does the work: both are there, or neither. A second request waits
for the first one's commit at the primary key, and then finds its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection
from psycopg.types.json import Json

from shardwheel.errors import ConflictError
from shardwheel.ids import id_of, text_of
from shardwheel.posting import JobPosting
from shardwheel.store.arrays import Texts, Uuids
from shardwheel.store.children import store_jobs
from shardwheel.store.sql import is_few, sql


class Stored(NamedTuple):
    """A job that was made now, or by an earlier request with the same key."""

    job_id: bytes
    is_new: bool


class Keyed(NamedTuple):
    """A key, what it is used for, and the job that it stands for from now on if it is free."""

    key: str
    body_hash: bytes
    job_id: bytes

    @classmethod
    def of(cls, posting: JobPosting, job_id: bytes) -> Keyed:
        return cls(posting.idempotency_key or "", _hash(_body(posting)), job_id)


def take_keys(conn: Connection[Any], tenant_id: str, wished: Sequence[Keyed]) -> list[Stored | None]:
    """For each of many, the job that its key stands for: it is to be made now, or was before (by an earlier
    one of these, too). None: for another body. A statement or two, however many they are."""
    first = {one.key: one for one in reversed(wished)}
    values = {
        "tenant_id": tenant_id,
        "keys": Texts(list(first)),
        "body_hashes": Uuids([one.body_hash for one in first.values()]),
        "answers": Texts([text_of(one.job_id) for one in first.values()]),
    }
    few = is_few(len(first))
    taken = {key for (key,) in conn.execute(sql("take_keys"), values, prepare=few)}
    meant = {key: (first[key].body_hash, first[key].job_id) for key in taken}
    if left := first.keys() - taken:
        given = {"tenant_id": tenant_id, "keys": Texts(sorted(left))}
        for key, body_hash, answer in conn.execute(sql("known_keys"), given, prepare=few):
            meant[key] = bytes(body_hash), id_of(answer)
    return [_stored(one, *meant[one.key]) for one in wished]


def are_known(conn: Connection[Any], tenant_id: str, keys: Sequence[str | None]) -> bool:
    """Whether each of these is a key that was used before, none of them left out."""
    said = {key for key in keys if key is not None}
    if None in keys:
        return False
    found = conn.execute(sql("known_keys"), {"tenant_id": tenant_id, "keys": Texts(sorted(said))})
    return {key for key, *_ in found} == said


def _stored(one: Keyed, body_hash: bytes, job_id: bytes) -> Stored | None:
    return Stored(job_id, job_id == one.job_id) if body_hash == one.body_hash else None


def store_once(conn: Connection[Any], tenant_id: str, posting: JobPosting) -> Stored:
    def make() -> bytes:
        return store_jobs(conn, tenant_id, [posting])[0]

    if posting.idempotency_key is None:
        return Stored(make(), True)
    return make_once(conn, tenant_id, posting.idempotency_key, _body(posting), make)


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
    body_hash = _hash(body)
    values = {"tenant_id": tenant_id, "key": key, "body_hash": body_hash}
    if conn.execute(sql("take_key"), values).rowcount:
        answer = make()
        conn.execute(sql("answer_key"), values | {"answer": Json(answer)})
        return answer, True
    ((known_hash, answer),) = conn.execute(sql("known_key"), values)
    if bytes(known_hash) != body_hash:
        raise used(said)
    return answer, False


def used(key: str) -> ConflictError:
    problem = f"idempotency_key: {key!r} was used for another body; choose another key"
    return ConflictError(problem, field="idempotency_key")


def _body(posting: JobPosting) -> bytes:
    return msgspec.json.encode(posting, order="deterministic")


def _hash(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()
