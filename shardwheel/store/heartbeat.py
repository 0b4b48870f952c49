"""Heartbeats: a worker's leases go on, in one statement for all that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from shardwheel.execution import Beat, Held
from shardwheel.store.arrays import Bigints, Uuids
from shardwheel.store.claim import LEASES
from shardwheel.store.sql import sql


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
