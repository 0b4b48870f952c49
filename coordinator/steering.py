"""What people may ask of the cluster: drain a shard, move a partition, balance. Each asks by writing a key.

The leader and the shards do the rest, whoever they are by then: nothing here waits, moves or plans anything.
Every refusal says what to do instead. Asking twice is asking once.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.partition import PARTITIONS
from shardwheel.ports import TXN_OPERATIONS_LIMIT, Compare, Delete, Leases, Put
from shardwheel.records import (
    DRAIN,
    OFF,
    REBALANCE,
    REBALANCE_NOW,
    Member,
    MemberState,
    View,
    pin_key,
    read_view,
)


async def look(leases: Leases) -> View:
    """The whole cluster at one revision."""
    return read_view(await leases.range(""))


def member_of(view: View, shard_id: str) -> Member:
    if shard_id not in view.members:
        known = ", ".join(sorted(view.members)) or "none"
        raise NotFoundError(f"there is no shard {shard_id!r}; alive are: {known}", field="shard_id")
    return view.members[shard_id]


async def drain(leases: Leases, shard_id: str) -> None:
    """Let the shard give all it has to the others. One at a time, and never the last one."""
    view = await look(leases)
    member = member_of(view, shard_id)
    if view.is_draining(shard_id):
        return
    if view.drain is not None:
        raise ConflictError(
            f"{view.drain.shard_id} drains already, one at a time: wait for it, or say "
            f"`shardctl shard undrain {view.drain.shard_id}`"
        )
    if not others_active(view, shard_id):
        raise ConflictError(
            "it is the only active shard: start another one first, which takes its partitions"
        )
    if member.state == MemberState.LEAVING:
        raise ConflictError(f"{shard_id} is leaving: it hands over what it has anyway")
    if not (await leases.txn([Compare(DRAIN, 0)], [Put(DRAIN, shard_id.encode())])).succeeded:
        raise ConflictError("somebody else asked for a drain just now: look with `shardctl shard list`")


def others_active(view: View, shard_id: str) -> list[str]:
    return [
        other.shard_id
        for other in view.members.values()
        if other.shard_id != shard_id and other.state == MemberState.ACTIVE
    ]


async def undrain(leases: Leases, shard_id: str) -> None:
    """Let the shard take its share again."""
    view = await look(leases)
    member_of(view, shard_id)
    if view.drain is None or not view.is_draining(shard_id):
        return
    await leases.txn([Compare(DRAIN, view.drain.mod_revision)], [Delete(DRAIN)])


async def pin(leases: Leases, partition: int, shard_id: str) -> None:
    """Move the partition to this shard, and keep it there until the next rebalance by hand."""
    if not 0 <= partition < PARTITIONS:
        raise UsageError(f"partition: there is no {partition}; give 0 to {PARTITIONS - 1}", field="partition")
    view = await look(leases)
    member = member_of(view, shard_id)
    if member.state != MemberState.ACTIVE or view.is_draining(shard_id):
        raise ConflictError(f"{shard_id} is {_state(view, member)}: choose an active shard")
    await leases.txn([], [Put(pin_key(partition), shard_id.encode())])


def _state(view: View, member: Member) -> str:
    return "draining" if view.is_draining(member.shard_id) else member.state


async def rebalance(leases: Leases) -> None:
    """Level the partitions now, though it be switched off; what was moved by hand is free again."""
    view = await look(leases)
    if not view.members:
        raise ConflictError("no shard is alive: start one with `shardctl shard`")
    pins: Sequence[int] = sorted(view.pins)
    for start in range(0, len(pins), TXN_OPERATIONS_LIMIT):
        await leases.txn([], [Delete(pin_key(p)) for p in pins[start : start + TXN_OPERATIONS_LIMIT]])
    await leases.txn([], [Put(REBALANCE_NOW, b"now")])


async def switch(leases: Leases, *, automatic: bool) -> None:
    """Whether the leader levels by itself when a shard joins; what has no owner finds one anyway."""
    await leases.txn([], [Delete(REBALANCE) if automatic else Put(REBALANCE, OFF)])
