"""Suspicion: a standby need not wait for the lease's end when the owner's process has plainly died.

This shard holds on to the door of every shard for which it is a standby. One whose door is shut for good is a
suspect, and what it owns may be taken from it, under the plan's revision. Only once for a pair of shards and
a partition: two healthy shards that can't reach each other would replace each other for ever.
"""

from __future__ import annotations

import trio

from shardwheel.ports import Doors
from shardwheel.records import View
from shardwheel.shard.views import Views


class Suspicion:
    def __init__(self, shard_id: str, doors: Doors | None, views: Views) -> None:
        self._shard_id = shard_id
        self._doors = doors
        self._views = views
        self._held: dict[str, trio.CancelScope] = {}
        self._suspects: set[str] = set()
        self._replaced: set[tuple[str, int]] = set()

    def may_replace(self, shard_id: str, partition: int) -> bool:
        return shard_id in self._suspects and (shard_id, partition) not in self._replaced

    def note_replaced(self, other: str, partition: int) -> None:
        """One of the two of us took this partition from the other."""
        self._replaced.add((other, partition))

    async def run(self) -> None:
        """Hold the doors that each view asks for, until cancelled."""
        async with trio.open_nursery() as nursery:
            number = 0
            while True:
                number = await self._views.newer(number)
                if self._views.view is not None:
                    self.hold_doors(self._views.view, nursery)

    def hold_doors(self, view: View, nursery: trio.Nursery) -> None:
        """Hold the doors that this view asks for, and no others."""
        mirrored = sorted({seat.owner for seat in view.seats if seat.standby == self._shard_id})
        wanted = [shard for shard in mirrored if shard in view.members] if self._doors else []
        self._suspects &= set(wanted)
        for shard_id in [shard for shard in self._held if shard not in wanted]:
            self._held.pop(shard_id).cancel()
        for shard_id in wanted:
            if shard_id not in self._held:
                self._held[shard_id] = scope = trio.CancelScope()
                nursery.start_soon(self._hold, shard_id, view.members[shard_id].address, scope)

    async def _hold(self, shard_id: str, address: str, scope: trio.CancelScope) -> None:
        assert self._doors is not None
        with scope:
            await self._doors.until_gone(address, shard_id)
            self._suspects.add(shard_id)
            self._views.hint()
