"""How far a consumer group is behind."""

from __future__ import annotations

from collections.abc import Sequence

from shardwheel.ports import Bus


async def lag_of(bus: Bus, group: str, topics: Sequence[str]) -> int:
    """How many records the group has not yet passed. Where it stands is read first: what comes meanwhile
    makes the lag a little too large, never too small."""
    committed = await bus.committed_offsets(group, topics)
    ends = await bus.end_offsets(topics)
    return sum(max(0, end - committed.get(place, 0)) for place, end in ends.items())
