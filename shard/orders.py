"""What a shard has to do about each partition, from one view of the cluster. Pure: it decides, `Owner` acts.

    planned to   key names      I hold it   order
    me           nobody         no          claim it: the key is absent
    me           me             no          claim it again: bump, load (an answer was lost, or refused)
    me           another        no          mirror it; once loaded say that I am ready
    another      me             yes         fire on; once that one is ready, hand it over
    another      me             no          release it: that one may take it
    (any)        not me         yes         drop it at once
    standby: me  nobody         no          claim it, if its owner is no member any more; else mirror it
    standby: me  its owner      no          mirror it; on suspicion replace the key, once a pair of shards

Moves go by groups: what the next owner said to be ready for at one revision is handed over in one step, and
the next group once that one has been taken. So a partition waits for one hand-over and one take, however many
move, and a next owner that gets stuck holds up one group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from shardwheel.records import Holder, Seat, View


@dataclass
class Orders:
    """Partitions by what is to be done with them. `claim`: with the key's mod revision that must still hold
    (0: absent); `hand_over`: with the revision of the ready key; `awaited`: of `mirror`, what is planned to
    me."""

    drop: list[int] = field(default_factory=list)
    hand_over: dict[int, int] = field(default_factory=dict)
    release: dict[int, int] = field(default_factory=dict)
    claim: dict[int, int] = field(default_factory=dict)
    replace: dict[int, str] = field(default_factory=dict)
    mirror: dict[int, str] = field(default_factory=dict)
    awaited: list[int] = field(default_factory=list)


def orders(
    view: View,
    shard_id: str,
    held: Collection[int],
    may_replace: Callable[[str, int], bool],
) -> Orders:
    """`held`: what I fire; the view must not be older than my latest claim. `may_replace`: whether I may take
    a partition from an owner whose lease still lives."""
    given = Orders()
    for partition, seat in enumerate(view.seats):
        holder = view.owners.get(partition)
        if partition in held:
            _about_held(given, view, shard_id, partition, seat, holder)
        elif holder is not None and holder.shard_id == shard_id:
            _about_mine(given, view, shard_id, partition, seat, holder)
        else:
            _about_others(given, view, shard_id, partition, seat, holder, may_replace)
    given.hand_over = _next_groups(given.hand_over, view)
    return given


def is_moving(view: View) -> bool:
    """Whether anything in the cluster is on its way to a member."""
    return any(
        seat.owner in view.members
        and (partition not in view.owners or view.owners[partition].shard_id != seat.owner)
        for partition, seat in enumerate(view.seats)
    )


def _next_groups(hand_over: Mapping[int, int], view: View) -> dict[int, int]:
    """For each next owner the group that it has been ready for longest; nothing while it has yet to take what
    nobody owns."""
    busy = {seat.owner for partition, seat in enumerate(view.seats) if partition not in view.owners}
    first: dict[str, int] = {}
    for partition, revision in hand_over.items():
        target = view.seats[partition].owner
        first[target] = min(revision, first.get(target, revision))
    return {
        partition: revision
        for partition, revision in hand_over.items()
        if (target := view.seats[partition].owner) not in busy and revision == first[target]
    }


def _about_held(
    given: Orders, view: View, shard_id: str, partition: int, seat: Seat, holder: Holder | None
) -> None:
    if holder is None or holder.shard_id != shard_id:
        given.drop.append(partition)
        return
    ready = view.ready.get(partition)
    if seat.owner != shard_id and ready is not None and ready.shard_id == seat.owner:
        given.hand_over[partition] = ready.mod_revision


def _about_mine(given: Orders, view: View, shard_id: str, partition: int, seat: Seat, holder: Holder) -> None:
    """The key is mine and nothing fires it: a lost answer, a refused watermark, a hand-over cut short."""
    if seat.owner != shard_id and seat.owner in view.members:
        given.release[partition] = holder.mod_revision
    else:
        given.claim[partition] = holder.mod_revision


def _about_others(
    given: Orders,
    view: View,
    shard_id: str,
    partition: int,
    seat: Seat,
    holder: Holder | None,
    may_replace: Callable[[str, int], bool],
) -> None:
    if shard_id not in seat:
        return
    if holder is None and (seat.owner == shard_id or seat.owner not in view.members):
        given.claim[partition] = 0
    elif holder is not None and holder.shard_id == seat.owner and may_replace(seat.owner, partition):
        given.claim[partition] = holder.mod_revision
        given.replace[partition] = holder.shard_id
    else:
        given.mirror[partition] = seat.owner if holder is None else holder.shard_id
        if seat.owner == shard_id:
            given.awaited.append(partition)
