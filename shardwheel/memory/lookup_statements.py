"""Statements around a posted job: its key, its reading back, its record. Twins of the .sql files."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Json

from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.job_statements import read_job
from shardwheel.memory.rows import IDEMPOTENCY_KEYS, IdempotencyKey, whole_now_ms
from shardwheel.memory.transaction import Transaction

_KEPT_MS = 86_400_000


@statement("plan_by_key")
@statement("plan_anew")
def plan(transaction: Transaction, given: Given) -> list[Any]:
    """There is nothing to plan."""
    return []


@statement("take_key")
def take_key(transaction: Transaction, given: Given) -> list[Any]:
    name = (given["tenant_id"], given["key"])
    transaction.lock(IDEMPOTENCY_KEYS, name)
    known: IdempotencyKey | None = transaction.get(IDEMPOTENCY_KEYS, name)
    now_ms = whole_now_ms(transaction)
    if known is not None and known.expires_ms >= now_ms:
        return []
    transaction.put(IDEMPOTENCY_KEYS, name, IdempotencyKey(given["body_hash"], None, now_ms + _KEPT_MS))
    return [Written()]


@statement("take_keys")
def take_keys(transaction: Transaction, given: Given) -> list[Any]:
    columns = zip(given["keys"], given["body_hashes"], given["answers"], strict=True)
    taken = []
    for key, body_hash, answer in sorted(columns):
        whose = {"tenant_id": given["tenant_id"], "key": key}
        if take_key(transaction, whose | {"body_hash": body_hash}):
            answer_key(transaction, whose | {"answer": Json(answer)})
            taken.append((key,))
    return taken


@statement("known_keys")
def known_keys(transaction: Transaction, given: Given) -> list[Any]:
    whose = {"tenant_id": given["tenant_id"]}
    return [(key, *found) for key in given["keys"] for found in known_key(transaction, whose | {"key": key})]


@statement("known_key")
def known_key(transaction: Transaction, given: Given) -> list[Any]:
    known: IdempotencyKey = transaction.get(IDEMPOTENCY_KEYS, (given["tenant_id"], given["key"]))
    return [(known.body_hash, known.answer)]


@statement("answer_key")
def answer_key(transaction: Transaction, given: Given) -> list[Any]:
    name = (given["tenant_id"], given["key"])
    known: IdempotencyKey = transaction.get(IDEMPOTENCY_KEYS, name)
    transaction.put(IDEMPOTENCY_KEYS, name, known._replace(answer=given["answer"].obj))
    return [Written()]


@statement("read_jobs")
def read_jobs(transaction: Transaction, given: Given) -> list[Any]:
    whose, now_ms = {"tenant_id": given["tenant_id"]}, whole_now_ms(transaction)
    found = [row for one in given["job_ids"] for row in read_job(transaction, whose | {"job_id": one})]
    return [(*row, now_ms) for row in found]


@statement("write_audits")
def write_audits(transaction: Transaction, given: Given) -> list[Any]:
    """Nobody reads the audit in memory."""
    return [Written() for _ in given["object_ids"]]
