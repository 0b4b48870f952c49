"""Dead letters on their way to the topic `shardwheel.dead-letters`: the table is the outbox.

The value is JSON, as docs/dead-letters.md describes it: `version`, the tenant, and the letter as `shardctl
dlq show` gives it. It holds the job's params and whatever user data the handler's errors told: who may read
the topic may read those. Kafka takes no message above a megabyte, so a letter with a great many attempts or
long tracebacks is shortened, and says so; the table has all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg import Connection

from shardwheel.execution import UnpublishedLetter
from shardwheel.store.arrays import Uuids
from shardwheel.store.letter_row import both_halves
from shardwheel.store.sql import sql

FORMAT_VERSION = 1
MOST_BYTES = 900_000
ATTEMPTS_KEPT = 20


def take_letters(conn: Connection[Any], most: int) -> list[UnpublishedLetter]:
    """Letters to publish now. Whoever takes them publishes them, or another one will."""
    taken = conn.execute(sql("take_letters"), {"most": most}, prepare=False).fetchall()
    letters = []
    for *row, tenant_id in taken:
        shown, contents = both_halves(tuple(row))
        value = {"version": FORMAT_VERSION, "tenant_id": tenant_id, **shown.as_read(), **contents.as_read()}
        del value["published_at"]
        letter = UnpublishedLetter(shown.dead_letter_id, shown.job_id, shown.partition, fitted(value))
        letters.append(letter)
    return letters


def letters_published(conn: Connection[Any], letter_ids: Sequence[bytes]) -> None:
    conn.execute(sql("letters_published"), {"letter_ids": Uuids(letter_ids)})


def fitted(value: dict[str, Any], most_bytes: int = MOST_BYTES) -> bytes:
    """As JSON that a broker takes: where it is too long, first the attempts' tracebacks go, then all but the
    first and the last attempts, then whatever else is long."""
    encoded = msgspec.json.encode(value | {"shortened": False})
    if len(encoded) <= most_bytes:
        return encoded
    short = value | {"shortened": True}
    short["attempts"] = [attempt | {"traceback": None} for attempt in value["attempts"]]
    if len(short["attempts"]) > ATTEMPTS_KEPT:
        half = ATTEMPTS_KEPT // 2
        short["attempts"] = [*short["attempts"][:half], *short["attempts"][-half:]]
    for name in ("checkpoint", "progress", "traceback", "message", "job", "params"):
        encoded = msgspec.json.encode(short)
        if len(encoded) <= most_bytes:
            return encoded
        short[name] = None
    short["attempts"] = []
    return msgspec.json.encode(short)
