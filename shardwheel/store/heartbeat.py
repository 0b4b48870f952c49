"""Heartbeats: a worker's leases go on, in one statement for all that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.store.arrays import Bigints, Uuids
from shardwheel.store.claim import LEASES
from shardwheel.store.sql import sql


class Held(NamedTuple):
    """A running attempt in a worker's hands. Once its result is acknowledged by Kafka, where it stands: the
    sweep then waits for the result instead of the lease (`offset` is -1 until then)."""

    execution_id: bytes
    attempt: int
    claim_token: bytes
    topic_partition: int = 0
    offset: int = -1


class Beat(NamedTuple):
    """What a heartbeat told: still ours, and asked to stop. What is missing from `ours` is lost."""

    ours: frozenset[bytes]
    to_stop: frozenset[bytes]


def heartbeat(conn: Connection[Any], held: Sequence[Held], pool: str, results_generation: str) -> Beat:
    parameters = {
        "execution_ids": Uuids([one.execution_id for one in held]),
        "attempts": Bigints([one.attempt for one in held]),
        "tokens": Uuids([one.claim_token for one in held]),
        "partitions": Bigints([one.topic_partition for one in held]),
        "offsets": Bigints([one.offset for one in held]),
        "generation": results_generation,
        "lease": LEASES[pool],
    }
    rows = conn.execute(sql("heartbeat"), parameters, binary=True, prepare=False).fetchall()
    return Beat(
        frozenset(execution_id for execution_id, _ in rows),
        frozenset(execution_id for execution_id, to_stop in rows if to_stop),
    )
