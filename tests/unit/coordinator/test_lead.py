"""The leader: planning from a view, elected by a key, refused when it was replaced or looked too early."""

from __future__ import annotations

from collections.abc import Mapping

from trio.testing import trio_test

from shardwheel.coordinator.lead import Lead, next_plan
from shardwheel.coordinator.members import Members
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.memory.loop_store import MemoryLoopStore, loop_server
from shardwheel.memory.pool import MemoryPool
from shardwheel.ports import Put
from shardwheel.records import (
    DRAIN,
    LEADER,
    OFF,
    PLAN,
    REBALANCE,
    REBALANCE_NOW,
    Holder,
    Member,
    MemberState,
    View,
    encode,
    member_key,
    read_view,
)
from shardwheel.service import Service


def view_of(*members: Member, before: View | None = None, owners: Mapping[int, Holder] | None = None) -> View:
    """The plan of the view before is kept, as of revision 3."""
    known = {member.shard_id: member for member in members}
    plan = None if before is None else next_plan(before) or before.plan
    return View(9, known, plan, 3, Holder("a", 2), owners or {}, {}, {}, None, False, 0)


def owners_in(view: View) -> set[str]:
    plan = next_plan(view) or view.plan
    assert plan is not None
    return {seat.owner for seat in plan.partitions}


def test_who_joins_and_who_leaves_changes_the_plan_and_nothing_else_does() -> None:
    alone = view_of(Member("a"))
    both = view_of(Member("a"), Member("b"), before=alone)
    assert owners_in(alone) == {"a"}
    assert owners_in(both) == {"a", "b"}
    assert next_plan(view_of(Member("a"), Member("b"), before=both)) is None
    assert owners_in(view_of(Member("b"), before=both)) == {"b"}
    leaving = Member("a", state=MemberState.LEAVING)
    assert owners_in(view_of(leaving, Member("b"), before=both)) == {"b"}


def test_a_standby_that_took_over_is_swapped_and_one_that_waits_for_a_move_is_not() -> None:
    both = view_of(Member("a"), Member("b"), before=view_of(Member("a"), Member("b")))
    partition, seat = next((p, seat) for p, seat in enumerate(both.seats) if seat.standby)
    assert seat.standby is not None
    older = both._replace(owners={partition: Holder(seat.standby, 2)})
    assert next_plan(older) is None
    plan = next_plan(both._replace(owners={partition: Holder(seat.standby, 4)}, rebalance_off=True))
    assert plan is not None and plan.partitions[partition].owner == seat.standby


def test_with_rebalancing_off_only_orphans_are_planned() -> None:
    alone = view_of(Member("a"))
    joined = view_of(Member("a"), Member("b"), before=alone)._replace(rebalance_off=True)
    assert owners_in(joined) == {"a"}
    assert owners_in(joined._replace(rebalance_now_revision=8)) == {"a", "b"}
    assert owners_in(view_of(Member("b"), before=alone)._replace(rebalance_off=True)) == {"b"}


def test_what_is_on_its_way_arrives_before_it_may_move_again() -> None:
    both = view_of(Member("a"), Member("b"), before=view_of(Member("a"), Member("b")))
    theirs = [p for p, seat in enumerate(both.seats) if seat.owner == "b"]
    owners = {p: Holder(seat.owner, 2) for p, seat in enumerate(both.seats) if p != theirs[0]}
    # b has the first one loaded, and it was handed over: nobody owns it. Meanwhile it is pinned to a.
    handed = both._replace(owners=owners, pins={theirs[0]: "a"}, ready={theirs[0]: Holder("b", 4)})
    plan = next_plan(handed) or both.plan
    assert plan is not None and plan.partitions[theirs[0]].owner == "b"
    taken = handed._replace(owners=owners | {theirs[0]: Holder("b", 5)}, ready={})
    plan = next_plan(taken)
    assert plan is not None and plan.partitions[theirs[0]].owner == "a"
    # Nobody has it loaded: it may as well be planned to somebody else.
    plan = next_plan(handed._replace(ready={}))
    assert plan is not None and plan.partitions[theirs[0]].owner == "a"


class Rig:
    """A leader without loops: looked at view by view."""

    def __init__(self, etcd: MemoryEtcd, shard_id: str) -> None:
        self.shard_id = shard_id
        self.leases = MemoryLeases(etcd)
        self.lease = 0
        service = Service(shard_id)
        self.members = Members(service, self.leases)
        store = MemoryLoopStore(MemoryPool(loop_server(partitions=1)))
        bus = MemoryBus(MemoryKafka())
        self.lead = Lead(service, store, bus, self.leases, self, self.members, now_ms=lambda: 7.0)

    async def join(self) -> None:
        self.lease = await self.leases.grant(60)
        await self.leases.txn([], [Put(member_key(self.shard_id), encode(Member(self.shard_id)), self.lease)])
        self.election = self.leases.election(LEADER, self.lease, self.shard_id.encode())

    async def look(self) -> View:
        await self.lead.run_once(self.election, await self.members.run_once())
        return read_view(await self.leases.range(""))


@trio_test
async def test_one_leads_and_plans_and_another_takes_its_place() -> None:
    etcd = MemoryEtcd()
    first, second = Rig(etcd, "a"), Rig(etcd, "b")
    await first.join()
    await first.look()
    planned = await first.look()
    assert first.lead.leads and {seat.owner for seat in planned.seats} == {"a"}
    assert planned.plan is not None and (planned.plan.made_at_ms, planned.plan.reason) == (7, "a joined")
    await second.join()
    assert (await second.look()).plan == planned.plan and not second.lead.leads
    await first.leases.revoke(first.lease)
    await second.look()
    taken = await second.look()
    assert second.lead.leads and {seat.owner for seat in taken.seats} == {"b"}


@trio_test
async def test_who_was_replaced_or_looked_too_early_writes_no_plan() -> None:
    etcd = MemoryEtcd()
    leader = Rig(etcd, "a")
    await leader.join()
    await leader.look()
    early = await leader.members.run_once()
    await leader.leases.txn([], [Put(PLAN, b"written by another meanwhile")])
    await leader.lead.run_once(leader.election, early)
    (item,) = (await leader.leases.range(PLAN)).items
    assert item.value == b"written by another meanwhile"
    replaced = await leader.members.run_once()
    await leader.leases.txn([], [Put(LEADER, b"b")])
    await leader.lead.run_once(leader.election, replaced)
    (item,) = (await leader.leases.range(PLAN)).items
    assert item.value == b"written by another meanwhile"


@trio_test
async def test_wishes_are_struck_off_once_they_are_granted() -> None:
    leader = Rig(MemoryEtcd(), "a")
    await leader.join()
    await leader.look()
    await leader.look()
    wishes = [Put(DRAIN, b"gone"), Put(REBALANCE, OFF), Put(REBALANCE_NOW, b"1")]
    await leader.leases.txn([], wishes)
    seen = await leader.look()
    assert seen.drain is None and not seen.rebalance_now_revision and seen.rebalance_off
