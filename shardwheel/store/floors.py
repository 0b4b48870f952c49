"""The claim floor: moved by the leader, once the workers have passed what was fired."""

from __future__ import annotations

from collections.abc import Sequence

from shardwheel.ports import PartitionState
from shardwheel.store.link import Connection
from shardwheel.store.sql import sql


def store_floors(connection: Connection, fired: Sequence[PartitionState]) -> int:
    """Make each partition's stored (T, X), as read before the workers passed it, its floor; how many were.
    All must be of one generation and identity."""
    if not fired:
        return 0
    parameters = {
        "partitions": [state.partition for state in fired],
        "epochs": [state.epoch for state in fired],
        "floors": [state.fired_through_ms for state in fired],
        "xids": [str(state.horizon_xid) for state in fired],
        "generation": fired[0].kafka_generation,
        **fired[0].identity._asdict(),
    }
    return connection.execute(sql("store_floors"), parameters).rowcount
