"""Who may store a partition's watermark, and how far it was fired: the fenced statements on `partitions`.

    epoch 4, owner A              B reads epoch 4, writes its key in etcd, takes with seen = {7: 4}
    epoch 5, owner B, T and X     B goes on from T and X
    A stores (7, epoch 4, …)      refused: A stops firing partition 7

Each function is one statement on the caller's transaction; none of them decides who ought to own what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwheel.ports import Identity, PartitionState, Watermark
from shardwheel.store.link import Connection
from shardwheel.store.sql import sql


def read_identity(connection: Connection) -> Identity:
    ((system_identifier, timeline),) = connection.execute(sql("identity"))
    return Identity(system_identifier, timeline)


def read_now_ms(connection: Connection) -> float:
    ((now_ms,),) = connection.execute(sql("now"), binary=True)
    return float(now_ms)


def read_partitions(connection: Connection, partitions: Sequence[int]) -> list[PartitionState]:
    return _states(connection.execute(sql("partitions"), {"partitions": list(partitions)}))


def take_partitions(connection: Connection, seen: Mapping[int, int], owner: str) -> list[PartitionState]:
    return _states(connection.execute(sql("take_partitions"), _taking(seen, owner)))


def store_watermarks(connection: Connection, watermarks: Sequence[Watermark], identity: Identity) -> set[int]:
    given = {
        "partitions": [mark.partition for mark in watermarks],
        "epochs": [mark.epoch for mark in watermarks],
        "fired_through": [mark.fired_through_ms for mark in watermarks],
        "horizons": [str(mark.horizon_xid) for mark in watermarks],
        **identity._asdict(),
    }
    stored = {partition for (partition,) in connection.execute(sql("store_watermarks"), given)}
    return {mark.partition for mark in watermarks} - stored


def reset_to_floor(
    connection: Connection, seen: Mapping[int, int], owner: str, kafka_generation: str, identity: Identity
) -> list[PartitionState]:
    given = {**_taking(seen, owner), "kafka_generation": kafka_generation, **identity._asdict()}
    return _states(connection.execute(sql("reset_to_floor"), given))


def _taking(seen: Mapping[int, int], owner: str) -> dict[str, Any]:
    return {"partitions": list(seen), "epochs": list(seen.values()), "owner": owner}


def _states(rows: Iterable[tuple[Any, ...]]) -> list[PartitionState]:
    return sorted(
        PartitionState._make((*state, Identity(system_identifier, timeline)))
        for *state, system_identifier, timeline in rows
    )
