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

A view that is older than my own claim says nothing about it: etcd's revision tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shardwheel.records import Holder, Seat, View


@dataclass
class Orders:
    """Partitions by what is to be done with them. `claim`: with the key's mod revision that must still hold
    (0: absent); `hand_over`: with the revision of the ready key, those that became ready together."""

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
    held: Mapping[int, int],
    may_replace: Callable[[str, int], bool],
) -> Orders:
    """`held`: what I fire, each with the revision at which I claimed it. `may_replace`: whether I may take a
    partition from an owner whose lease still lives."""
    given = Orders()
    for partition, seat in enumerate(view.seats):
        holder = view.owners.get(partition)
        if partition in held:
            if view.revision >= held[partition]:
                _about_held(given, view, shard_id, partition, seat, holder)
        elif holder is not None and holder.shard_id == shard_id:
            _about_mine(given, view, shard_id, partition, seat, holder)
        else:
            _about_others(given, view, shard_id, partition, seat, holder, may_replace)
    return given


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
