"""The cluster and its task types as people see them: the same lines for `shardctl` and for the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from shardwheel.limits import TaskType
from shardwheel.output import shown_time
from shardwheel.ports import PartitionState
from shardwheel.records import Seat, View


def shard_rows(view: View) -> list[dict[str, Any]]:
    owned = Counter(holder.shard_id for holder in view.owners.values())
    mirrored = Counter(seat.standby for seat in view.seats if seat.standby)
    return [
        {
            "id": shard_id,
            "state": "draining" if view.is_draining(shard_id) else str(member.state),
            "zone": member.zone,
            "leader": view.leader is not None and view.leader.shard_id == shard_id,
            "partitions": owned[shard_id],
            "standbys": mirrored[shard_id],
            "address": member.address,
            "version": member.version,
            "started_at": shown_time(member.started_at_ms),
        }
        for shard_id, member in sorted(view.members.items())
    ]


def shard_left(view: View, shard_id: str) -> dict[str, Any]:
    """What a drain or its end left: a shard may end while it drains, and is then drained too."""
    state = "gone"
    if shard_id in view.members:
        state = "draining" if view.is_draining(shard_id) else str(view.members[shard_id].state)
    owned = len(view.owned_by(shard_id))
    return {"id": shard_id, "state": state, "partitions": owned, "drained": state != "active" and not owned}


def owner_of(view: View, partition: int) -> str | None:
    holder = view.owners.get(partition)
    return None if holder is None else holder.shard_id


def partition_rows(
    view: View, states: Iterable[PartitionState], jobs: Mapping[int, int], now_ms: int
) -> list[dict[str, Any]]:
    return [_row(view, state, jobs.get(state.partition, 0), now_ms) for state in states]


def _row(view: View, state: PartitionState, jobs: int, now_ms: int) -> dict[str, Any]:
    owner = owner_of(view, state.partition)
    seat = view.seats[state.partition] if view.seats else Seat("")
    fired = state.fired_through_ms
    return {
        "partition": state.partition,
        "state": "unowned" if owner is None else "moving" if seat.owner not in ("", owner) else "owned",
        "owner": owner,
        "standby": seat.standby,
        "planned": seat.owner or None,
        "pin": view.pins.get(state.partition),
        "jobs": jobs,
        "fired_through": shown_time(fired) if fired else None,
        "behind_s": round((now_ms - fired) / 1000, 1) if fired else None,
        "claimed_through": shown_time(state.floor_ms) if state.floor_ms else None,
        "epoch": state.epoch,
    }


def task_row(task: TaskType) -> dict[str, Any]:
    """A task type as people see it."""
    until_ms = task.breaker_open_until_ms
    return {
        "id": task.task,
        "task": task.task,
        "paused": task.paused,
        "max_running": task.max_running,
        "slots_taken": task.slots_taken,
        "rate": None if task.rate_per_s is None else f"{task.rate_per_s * 60:g}/min",
        "breaker": "off" if not task.breaker else "closed" if until_ms is None else "open",
        "breaker_open_until": None if until_ms is None else shown_time(until_ms),
        "held": task.held,
    }
