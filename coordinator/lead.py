"""The leader: elected among the shards, it alone writes plans and moves the claim floor.

It is not on the fail-over path: a standby takes over without it, and without a leader floors and plans stand
still while everything fires on.

A plan is written by a transaction that compares the leader's own key and the plan's revision: whoever was
replaced, or planned on an old view, is refused and looks again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import trio

from shardwheel.coordinator.floor import FloorMover, FloorStore
from shardwheel.coordinator.members import Members
from shardwheel.coordinator.planning import make_plan, with_takeovers
from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.logs import get_logger
from shardwheel.ports import Bus, Compare, Delete, Election, Leases, Put
from shardwheel.records import DRAIN, LEADER, PLAN, REBALANCE_NOW, Member, MemberState, Plan, View, encode
from shardwheel.service import Service

FLOOR_S = 2.0


class Candidate(Protocol):
    """Who may lead: a member with a lease."""

    @property
    def shard_id(self) -> str: ...

    @property
    def lease(self) -> int: ...


class Lead:
    def __init__(
        self,
        service: Service,
        store: FloorStore,
        bus: Bus,
        leases: Leases,
        candidate: Candidate,
        members: Members,
        *,
        now_ms: Callable[[], float],
        mirrored: bool = True,
    ) -> None:
        self._service = service
        self._leases = leases
        self._candidate = candidate
        self._members = members
        self._now_ms = now_ms
        self._mirrored = mirrored
        self._floor = FloorMover(store, bus, now_ms)
        self._log = get_logger(shard=candidate.shard_id)
        self.leads = False

    def add_to_service(self) -> None:
        self._service.add_loop("lead", self._run)
        self._service.add_loop("floor", self._move_floor)

    async def _run(self) -> None:
        """Look at every view until the service stops; then let another one lead at once."""
        election = self._leases.election(LEADER, self._candidate.lease, self._candidate.shard_id.encode())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look, election)
            await self._service.stopping.wait()
            nursery.cancel_scope.cancel()
        self.leads = False
        try:
            await election.resign()
        except UnavailableError as error:
            self._log.warning("could not resign", reason=str(error))

    async def _look(self, election: Election) -> None:
        number = 0
        while True:
            number = await self._members.newer(number)
            assert self._members.view is not None
            try:
                await self.run_once(election, self._members.view)
                self._service.health.well("lead")
            except UnavailableError as error:
                self._service.health.unwell("lead", str(error))

    async def run_once(self, election: Election, view: View) -> None:
        if view.leader is None:
            await election.campaign()  # The next view tells who won.
        leads = view.leader is not None and view.leader.shard_id == self._candidate.shard_id
        if leads != self.leads:
            self.leads = leads
            self._log.info("leads" if leads else "follows")
        if leads:
            await self._plan(view)

    async def _plan(self, view: View) -> None:
        plan = next_plan(view, mirrored=self._mirrored)
        then: list[Put | Delete] = []
        if plan is not None:
            plan = msgspec.structs.replace(plan, made_at_ms=int(self._now_ms()), reason=reason(view))
            then.append(Put(PLAN, encode(plan)))
        if view.rebalance_now_revision:
            then.append(Delete(REBALANCE_NOW))
        if view.drain is not None and view.drain.shard_id not in view.members:
            then.append(Delete(DRAIN))
        if not then:
            return
        if (await self._leases.txn(_unchanged(view), then)).succeeded and plan is not None:
            self._log.info("planned", generation=plan.generation, reason=plan.reason)

    async def _move_floor(self) -> None:
        while not self._service.stopping.is_set():
            try:
                if self.leads:
                    await self._floor.run_once()
                else:
                    self._floor.fall_silent()
                self._service.health.well("floor")
            except (UnavailableError, NotFoundError) as error:
                self._service.health.unwell("floor", str(error))
            with trio.move_on_after(FLOOR_S):
                await self._service.stopping.wait()


def next_plan(view: View, *, mirrored: bool = True) -> Plan | None:
    """The plan that this view asks for; None while the present one will do."""
    previous = view.plan
    if previous is not None:
        # A key that is younger than the plan and names the standby: it took over.
        taken = {p: h.shard_id for p, h in view.owners.items() if h.mod_revision > view.plan_revision}
        previous = with_takeovers(previous, taken)
    keep = view.rebalance_off and not view.rebalance_now_revision
    pins = {**view.pins, **_on_their_way(view)}
    plan = make_plan(previous, present_members(view), pins, keep=keep, mirrored=mirrored)
    if view.plan is not None and plan.partitions == view.plan.partitions:
        return None
    return plan if any(seat.owner for seat in plan.partitions) else None


def _on_their_way(view: View) -> dict[int, str]:
    """What was handed over and not taken yet: whoever said to be ready for it has it loaded, and nobody else.
    Planned anew just then, it would wait for a load; once taken, it may move again."""
    return {
        partition: view.ready[partition].shard_id
        for partition, seat in enumerate(view.seats)
        if partition not in view.owners
        and partition in view.ready
        and view.ready[partition].shard_id == seat.owner
    }


def present_members(view: View) -> list[Member]:
    """The members as they are to be planned with: who is to drain drains, though it may not have seen it."""
    drains = None if view.drain is None else view.drain.shard_id
    return [
        msgspec.structs.replace(member, state=MemberState.DRAINING)
        if member.shard_id == drains and member.state == MemberState.ACTIVE
        else member
        for member in sorted(view.members.values())
    ]


def reason(view: View) -> str:
    """Why a plan was made, for people."""
    named = {shard for seat in view.seats for shard in seat if shard}
    joined = sorted(m.shard_id for m in present_members(view) if m.state == "active")
    said = [f"{shard} joined" for shard in joined if shard not in named]
    said += [f"{shard} left" for shard in sorted(named) if shard not in view.members]
    said += [f"{m.shard_id} is {m.state}" for m in present_members(view) if m.state != "active"]
    return "; ".join(said) or "takeovers, pins or balance"


def _unchanged(view: View) -> list[Compare]:
    """Still the leader, and nobody has planned since."""
    assert view.leader is not None
    compare = [Compare(LEADER, view.leader.mod_revision), Compare(PLAN, view.plan_revision)]
    if view.rebalance_now_revision:
        compare.append(Compare(REBALANCE_NOW, view.rebalance_now_revision))
    if view.drain is not None:
        compare.append(Compare(DRAIN, view.drain.mod_revision))
    return compare
