"""The fenced statements on `partitions`, as `store.ownership` has them in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shardwheel.memory.transaction import Transaction
from shardwheel.ports import Identity, PartitionState, Watermark

TABLE = "partitions"
PARTITIONS = 256
NOBODY = PartitionState(0, 0, "", 0, 0, 0, 0, "", Identity(0, 0))


def fill_partitions(transaction: Transaction, partitions: int = PARTITIONS) -> None:
    """What the migration does: a row for each."""
    for partition in range(partitions):
        transaction.put(TABLE, partition, NOBODY._replace(partition=partition))


def read_partitions(transaction: Transaction, partitions: Sequence[int]) -> list[PartitionState]:
    return list(_existing(transaction, partitions))


def take_partitions(transaction: Transaction, seen: Mapping[int, int], owner: str) -> list[PartitionState]:
    taken = []
    for state in _locked(transaction, seen):
        if state.epoch == seen[state.partition]:
            taken.append(_put(transaction, state._replace(epoch=state.epoch + 1, owner=owner)))
    return taken


def store_watermarks(
    transaction: Transaction, watermarks: Sequence[Watermark], identity: Identity
) -> set[int]:
    given = {mark.partition: mark for mark in watermarks}
    refused = set(given)
    for state in _locked(transaction, given):
        mark = given[state.partition]
        if mark.epoch == state.epoch and identity == state.identity == transaction.server.identity:
            _put(transaction, _moved_on(state, mark))
            refused.discard(state.partition)
    return refused


def reset_to_floor(
    transaction: Transaction, seen: Mapping[int, int], owner: str, kafka_generation: str, identity: Identity
) -> list[PartitionState]:
    taken = []
    for state in _locked(transaction, seen):
        same_system = state.identity.system_identifier in (0, identity.system_identifier)
        if state.epoch == seen[state.partition] and same_system and identity == transaction.server.identity:
            reset = state._replace(
                epoch=state.epoch + 1,
                owner=owner,
                fired_through_ms=state.floor_ms,
                horizon_xid=state.floor_xid,
                kafka_generation=kafka_generation,
                identity=identity,
            )
            taken.append(_put(transaction, reset))
    return taken


def _moved_on(state: PartitionState, mark: Watermark) -> PartitionState:
    return state._replace(
        fired_through_ms=max(state.fired_through_ms, mark.fired_through_ms),
        horizon_xid=max(state.horizon_xid, mark.horizon_xid),
    )


def _existing(transaction: Transaction, partitions: Sequence[int]) -> Iterator[PartitionState]:
    states = (transaction.get(TABLE, partition) for partition in sorted(set(partitions)))
    return (state for state in states if state is not None)


def _locked(transaction: Transaction, partitions: Mapping[int, object]) -> list[PartitionState]:
    """Locked in key order; nothing of another transaction is between the lock and the read."""
    for partition in sorted(partitions):
        transaction.lock(TABLE, partition)
    return list(_existing(transaction, list(partitions)))


def _put(transaction: Transaction, state: PartitionState) -> PartitionState:
    transaction.put(TABLE, state.partition, state)
    return state
