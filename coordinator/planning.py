"""Who should own which partition: bounded-load rendezvous hashing that moves as little as it can.

Pure: members, pins and the plan before in, the next plan out; the same on every machine (blake2b, never
`hash()`). It never looks at the clock and never asks who owns what in fact: see `with_takeovers`.

Every active member gets floor or ceil of P / N partitions. What has to move (its owner is gone, drains, or
holds more than its bound) goes to its standby, where that has room, else to the member with room whose hash
with the partition is the highest. So, of 256 partitions:

    a, b           128 each
    + c            86 go to c, half of them from each; nothing moves between a and b
    c dies         its 86 go to their standbys, 43 each: what the takeovers did already is the next plan

For that, standbys are dealt so that a member's death leaves the others level. They are in another zone where
there is one, none when a member is alone, and stay where they are while that is so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from shardwheel.partition import PARTITIONS
from shardwheel.records import Member, MemberState, Plan, Seat


class Move(NamedTuple):
    """A partition that changes its owner; `source` is empty when it had none."""

    partition: int
    source: str
    target: str


_NOBODY = Plan(0, (Seat(""),) * PARTITIONS)


def make_plan(
    previous: Plan | None,
    members: Sequence[Member],
    pins: Mapping[int, str],
    *,
    keep: bool = False,
    mirrored: bool = True,
) -> Plan:
    """The plan for these members; `previous` itself when nothing changes.

    `pins` (partition → shard) hold while their shard is an active member. With `keep` only what must move
    does: partitions without a live owner, of a draining member, and pinned ones. Unless `mirrored`, nothing
    has a standby.
    """
    before = previous or _NOBODY
    takers = _takers(members)
    if not takers:
        return before
    zones = {member.shard_id: member.zone for member in takers}
    fixed = {partition: shard for partition, shard in pins.items() if shard in zones}
    owners = _owners(before.partitions, zones, fixed, keep=keep)
    standbys = _standbys(before.partitions, owners, zones, keep=keep) if mirrored else [None] * PARTITIONS
    seats = tuple(map(Seat, owners, standbys))
    return before if seats == before.partitions else Plan(before.generation + 1, seats)


def changes(previous: Plan | None, following: Plan) -> list[Move]:
    """The partitions that get another owner. (A new standby moves nothing: it only loads.)"""
    before = (previous or _NOBODY).partitions
    return [
        Move(partition, old.owner, new.owner)
        for partition, (old, new) in enumerate(zip(before, following.partitions, strict=True))
        if old.owner != new.owner
    ]


def with_takeovers(plan: Plan, taken: Mapping[int, str]) -> Plan:
    """The plan with owner and standby swapped where the standby took over; itself where none did.

    `taken` (partition → shard) are the owners whose key was written *after* this plan: an older key that
    names the standby is a planned move in the other direction that has not ended yet.
    """
    seats = tuple(
        Seat(seat.standby, seat.owner) if seat.standby and taken.get(partition) == seat.standby else seat
        for partition, seat in enumerate(plan.partitions)
    )
    return plan if seats == plan.partitions else Plan(plan.generation + 1, seats)


def _takers(members: Sequence[Member]) -> list[Member]:
    """Who may own: the active ones; without any, the draining ones keep firing: somebody must."""
    for state in (MemberState.ACTIVE, MemberState.DRAINING):
        found = sorted(member for member in members if member.state == state)
        if found:
            return found
    return []


def _owners(
    seats: Sequence[Seat], takers: Mapping[str, str], fixed: Mapping[int, str], *, keep: bool
) -> list[str]:
    owners = [fixed.get(p) or (seat.owner if seat.owner in takers else "") for p, seat in enumerate(seats)]
    heirs = [owner or seat.standby for owner, seat in zip(owners, seats, strict=True)]
    room = Counter(_bounds(owners, heirs, takers, fixed))
    room.subtract(owner for owner in owners if owner)
    if not keep:
        _release(owners, seats, room, fixed)
    homeless = [partition for partition, owner in enumerate(owners) if not owner]
    # Two rounds: a standby that has a partition loaded must not lose its room to one that it has not.
    for partition in homeless:
        standby = seats[partition].standby
        if standby and room[standby] > 0:
            owners[partition] = standby
            room[standby] -= 1
    for partition in homeless:
        if not owners[partition]:
            owners[partition] = _nearest((m for m in takers if room[m] > 0), partition)
            room[owners[partition]] -= 1
    return owners


def _bounds(
    owners: Sequence[str], heirs: Sequence[str | None], takers: Iterable[str], fixed: Mapping[int, str]
) -> dict[str, int]:
    """How many partitions each should own. Odd ones go to who has more than a share, now or once the
    standbys have taken over: so nothing moves for them.

    Members that are pinned more than their share keep just that; the others share the rest.
    """
    pinned, held, heir = Counter(fixed.values()), Counter(owners), Counter(heirs)
    bounds: dict[str, int] = {}
    sharing = set(takers)
    rest = len(owners)
    while sharing:
        share, odd = divmod(rest, len(sharing))
        above = [m for m in sharing if pinned[m] > share]
        if len(above) <= odd and all(pinned[m] == share + 1 for m in above):
            order = sorted(
                sharing, key=lambda m: (pinned[m] <= share, held[m] <= share, -heir[m], _score(m, -1))
            )
            return bounds | {m: share + (n < odd) for n, m in enumerate(order)}
        most = max(pinned[m] for m in above)
        for m in [m for m in above if pinned[m] == most]:
            bounds[m] = most
            rest -= most
            sharing.remove(m)
    return bounds


def _release(owners: list[str], seats: Sequence[Seat], room: Counter[str], fixed: Mapping[int, str]) -> None:
    """Take from those above their bound; first what a standby with room is ready for, then what lies nearest
    to a member with room."""
    short = [m for m in room if room[m] > 0]
    for owner in [m for m in room if room[m] < 0]:
        loose = [p for p, holder in enumerate(owners) if holder == owner and p not in fixed]
        loose.sort(key=lambda p: (seats[p].standby not in short, -max(_score(m, p) for m in short)))
        for partition in loose[: -room[owner]]:
            owners[partition] = ""
        room[owner] = 0


def _standbys(
    seats: Sequence[Seat], owners: Sequence[str], zones: Mapping[str, str], *, keep: bool
) -> list[str | None]:
    standbys: list[str | None] = [None] * len(owners)
    load = Counter(owners)
    dealt: Counter[str] = Counter()
    for owner in sorted(zones):
        mine = [partition for partition, holder in enumerate(owners) if holder == owner]
        others = [m for m in zones if m != owner]
        eligible = [m for m in others if zones[m] != zones[owner]] or others
        if not eligible:
            continue
        # Whoever mirrors it now; else whoever owned it until now and has it loaded.
        wishes = {p: [seats[p].standby, seats[p].owner] for p in mine}
        room = _dealt(Counter(w[0] for w in wishes.values()), eligible, len(mine), load, dealt)
        dealt.update(room)
        left = mine
        for round_ in range(2):
            for partition in left:
                wish = wishes[partition][round_]
                kept = keep and round_ == 0 and wish in others
                if wish and (kept or room[wish] > 0):
                    standbys[partition] = wish
                    room[wish] -= 1
            left = [p for p in left if standbys[p] is None]
        for partition in left:
            chosen = _nearest((m for m in eligible if room[m] > 0), partition)
            standbys[partition] = chosen
            room[chosen] -= 1
    return standbys


def _dealt(
    now: Counter[str | None],
    eligible: Sequence[str],
    count: int,
    load: Mapping[str, int],
    dealt: Mapping[str, int],
) -> Counter[str]:
    """How many standbys of one owner each member gets, so that its death leaves the others level; where that
    leaves a choice, who has them now, then who has few of the other owners'."""
    given: Counter[str] = Counter()
    for _ in range(count):
        given[
            min(eligible, key=lambda m: (load[m] + given[m], now[m] <= given[m], dealt[m] + given[m], m))
        ] += 1
    return given


def _nearest(members: Iterable[str], partition: int) -> str:
    return max(members, key=lambda member: _score(member, partition))


def _score(member: str, partition: int) -> int:
    return int.from_bytes(blake2b(f"{partition}/{member}".encode(), digest_size=8).digest(), "big")
