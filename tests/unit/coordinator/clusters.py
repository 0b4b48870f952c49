"""A cluster as etcd would have it, written key by key."""

from __future__ import annotations

from shardwheel.coordinator.planning import make_plan
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.ports import Put
from shardwheel.records import LEADER, PLAN, Member, Plan, encode, member_key, owner_key

MADE_AT_MS = 1_795_003_200_000


async def cluster(*members: Member, owned: bool = True) -> MemoryLeases:
    """These shards, the first one leading, with their plan; each owns what is planned for it."""
    leases = MemoryLeases(MemoryEtcd())
    plan = make_plan(None, members, {})
    planned = Plan(plan.generation, plan.partitions, MADE_AT_MS, "for a test")
    puts = [Put(PLAN, encode(planned)), Put(LEADER, members[0].shard_id.encode())]
    puts += [Put(member_key(member.shard_id), encode(member)) for member in members]
    if owned:
        puts += [Put(owner_key(p), seat.owner.encode()) for p, seat in enumerate(plan.partitions)]
    for start in range(0, len(puts), 128):
        await leases.txn([], puts[start : start + 128])
    return leases


def shard(shard_id: str, **fields: str) -> Member:
    return Member(shard_id, address=f"{shard_id}:80", version="1", started_at_ms=MADE_AT_MS, **fields)  # type: ignore[arg-type]
