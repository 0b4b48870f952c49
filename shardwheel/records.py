"""What the cluster keeps in etcd: the keys' names, their values, and all of them read as one `View`. Pure.

    shards/<id>     a member, bound to its lease            {"shard_id", "address", "zone", "state", …}
    leader          who plans, bound to its lease           the shard's id
    plan            who ought to own what                   {"generation", "partitions": [[owner, standby]…]}
    owners/<p>      who owns p, bound to its lease          the shard's id
    ready/<p>       "I hold p passively: hand it over"      the next owner's id, bound to its lease
    drain           the one shard that drains               its id
    pins/<p>        where somebody wants p to be            a shard's id
    rebalance       "off": plan only what must be planned
    rebalance/now   balance once, though it is off

It lives on the values' floor, not in a room: the coordinator writes plans, the shard follows them, the
command line shows them, and none of them imports another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from shardwheel.ports import KeyEvent, KeyValue, Snapshot

LEADER = "leader"
PLAN = "plan"
DRAIN = "drain"
REBALANCE = "rebalance"
REBALANCE_NOW = "rebalance/now"
OFF = b"off"

T = TypeVar("T")


def member_key(shard_id: str) -> str:
    return f"shards/{shard_id}"


def owner_key(partition: int) -> str:
    return f"owners/{partition}"


def ready_key(partition: int) -> str:
    return f"ready/{partition}"


def pin_key(partition: int) -> str:
    return f"pins/{partition}"


class MemberState(StrEnum):
    """Active ones are planned with; the others keep what they own until it is handed over."""

    ACTIVE = "active"
    DRAINING = "draining"
    LEAVING = "leaving"


class Member(msgspec.Struct, frozen=True, order=True):
    """A shard that is alive: written by itself, gone with its lease."""

    shard_id: str
    zone: str = ""
    state: MemberState = MemberState.ACTIVE
    address: str = ""
    version: str = ""
    started_at_ms: int = 0


class Seat(NamedTuple):
    """Who ought to own a partition, and who mirrors it. An empty owner: there was nobody to give it to."""

    owner: str
    standby: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """Seats in order of the partitions' numbers. The generation grows with every plan that differs.

    `made_at_ms` and `reason` are for people."""

    generation: int
    partitions: tuple[Seat, ...]
    made_at_ms: int = 0
    reason: str = ""


class Holder(NamedTuple):
    """Whom a key names, and since which revision."""

    shard_id: str
    mod_revision: int


class View(NamedTuple):
    """Everything at one revision. `plan_revision` and `leader_revision` are mod revisions (0: absent)."""

    revision: int
    members: Mapping[str, Member]
    plan: Plan | None
    plan_revision: int
    leader: Holder | None
    owners: Mapping[int, Holder]
    ready: Mapping[int, Holder]
    pins: Mapping[int, str]
    drain: Holder | None
    rebalance_off: bool
    rebalance_now_revision: int

    @property
    def seats(self) -> tuple[Seat, ...]:
        return () if self.plan is None else self.plan.partitions

    def is_draining(self, shard_id: str) -> bool:
        return self.drain is not None and self.drain.shard_id == shard_id

    def owned_by(self, shard_id: str) -> dict[int, Holder]:
        return {p: holder for p, holder in self.owners.items() if holder.shard_id == shard_id}


def encode(value: Member | Plan) -> bytes:
    return msgspec.json.encode(value)


def read_view(snapshot: Snapshot) -> View:
    """All keys of the cluster as one value. What can't be read counts as absent: its writer writes again."""
    items = {item.key: item for item in snapshot.items}
    members = (_decoded(item, Member) for key, item in items.items() if key.startswith("shards/"))
    plan, now = items.get(PLAN), items.get(REBALANCE_NOW)
    rebalance = items.get(REBALANCE)
    return View(
        snapshot.revision,
        {member.shard_id: member for member in members if member is not None},
        None if plan is None else _decoded(plan, Plan),
        0 if plan is None else plan.mod_revision,
        _holder(items.get(LEADER)),
        dict(_numbered(snapshot.items, "owners/")),
        dict(_numbered(snapshot.items, "ready/")),
        {partition: pin.shard_id for partition, pin in _numbered(snapshot.items, "pins/")},
        _holder(items.get(DRAIN)),
        rebalance is not None and rebalance.value == OFF,
        0 if now is None else now.mod_revision,
    )


def with_events(snapshot: Snapshot, events: Iterable[KeyEvent]) -> Snapshot:
    """What the snapshot has become by these events, in their order; those that it knows already are passed
    over."""
    items = {item.key: item for item in snapshot.items}
    revision = snapshot.revision
    for event in events:
        if event.revision <= snapshot.revision:
            continue
        revision = event.revision
        if event.item is None:
            items.pop(event.key, None)
        else:
            items[event.key] = event.item
    return Snapshot(tuple(items.values()), revision)


def _decoded(item: KeyValue, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(item.value, type=kind)
    except msgspec.MsgspecError:
        return None


def _holder(item: KeyValue | None) -> Holder | None:
    return None if item is None else Holder(item.value.decode(errors="replace"), item.mod_revision)


def _numbered(items: Iterable[KeyValue], prefix: str) -> list[tuple[int, Holder]]:
    found = []
    for item in items:
        number = item.key.removeprefix(prefix)
        if item.key.startswith(prefix) and number.isdecimal():
            found.append((int(number), Holder(item.value.decode(errors="replace"), item.mod_revision)))
    return sorted(found)
