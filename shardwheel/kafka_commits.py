"""Which offsets a consumer still owes the broker. Pure.

A commit that was asked for is *owed* until the broker confirms exactly that offset, or until its topic
partition goes to another member. Offsets never go back: batches may be settled out of order.

    want({a: 10})   owed {a: 10}        want({a: 7})   nothing new
    confirm(a, 7)   owed {a: 10}        confirm(a, 10) owed {}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shardwheel.ports import Record, TopicPartition


def offsets_after(records: Iterable[Record]) -> dict[TopicPartition, int]:
    """Where a group stands that has settled these records: of each topic partition the largest counts."""
    offsets: dict[TopicPartition, int] = {}
    for record in records:
        place = TopicPartition(record.topic, record.topic_partition)
        offsets[place] = max(record.offset + 1, offsets.get(place, 0))
    return offsets


class Commits:
    """The book of one consumer: what it holds, what it wants committed, what is confirmed."""

    def __init__(self) -> None:
        self._wanted: dict[TopicPartition, int] = {}
        self._owed: dict[TopicPartition, int] = {}
        self._held: set[TopicPartition] = set()
        self._handed: dict[TopicPartition, int] = {}

    @property
    def owed(self) -> Mapping[TopicPartition, int]:
        return self._owed

    @property
    def held(self) -> frozenset[TopicPartition]:
        return frozenset(self._held)

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._held.update(places)

    def revoke(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self._held.discard(place)
            self.forget(place)

    def hand_out(self, records: Iterable[Record]) -> None:
        """The consumer's caller has these now."""
        self._handed |= offsets_after(records)

    def forget(self, place: TopicPartition) -> None:
        """Offsets start over here: another member's business now, or other data. Records that were handed
        out before are not committed any more: their offsets would pass over the new data."""
        self._handed[place] = 0
        self._wanted.pop(place, None)
        self._owed.pop(place, None)

    def want(self, offsets: Mapping[TopicPartition, int]) -> None:
        for place, offset in offsets.items():
            if place in self._held and self._wanted.get(place, -1) < offset <= self._handed.get(
                place, offset
            ):
                self._wanted[place] = self._owed[place] = offset

    def confirm(self, place: TopicPartition, offset: int) -> None:
        if self._owed.get(place) == offset:
            del self._owed[place]
