"""A shard's sign of life in etcd: its lease, and `shards/<id>` that goes with it.

The id is new with every start of the process. When the lease is gone (it was not renewed in time, or etcd has
lost its data) others may own what was ours, so the process ends and starts over as somebody new.
"""

from __future__ import annotations

import msgspec

from shardwheel.ports import Leases, Put
from shardwheel.records import Member, MemberState, View, encode, member_key


class LeaseGoneError(Exception):
    """The lease is gone, not renewed in time or lost with etcd's data: the shard must start over as somebody
    new."""


class Membership:
    def __init__(self, leases: Leases, member: Member, ttl_s: int) -> None:
        self._leases = leases
        self._ttl_s = ttl_s
        self.member = member
        self.lease = 0
        self.leaving = False

    async def register(self) -> None:
        self.lease = await self._leases.grant(self._ttl_s)
        await self._announce()

    async def keep_alive(self) -> None:
        if not await self._leases.keep_alive(self.lease):
            raise LeaseGoneError("the lease is gone: the shard must start over as somebody new")

    async def run_once(self, view: View) -> None:
        """Let the key say the state we are in: who drains or leaves is planned without."""
        drains = view.drain is not None and view.drain.shard_id == self.member.shard_id
        state = MemberState.DRAINING if drains else MemberState.ACTIVE
        state = MemberState.LEAVING if self.leaving else state
        self.member = msgspec.structs.replace(self.member, state=state)
        if view.members.get(self.member.shard_id) != self.member:
            await self._announce()

    async def revoke(self) -> None:
        await self._leases.revoke(self.lease)

    async def _announce(self) -> None:
        key = member_key(self.member.shard_id)
        await self._leases.txn([], [Put(key, encode(self.member), self.lease)])
