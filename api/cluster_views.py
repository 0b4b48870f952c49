"""What is answered about the cluster, as the document describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shardwheel.api.views import At, Cursor, Id, View


class ShardPage(View):
    items: list[dict[str, Any]]
    next_cursor: Cursor


class PoolView(View):
    id: str
    lag: int | None


class PoolPage(View):
    items: list[PoolView]
    next_cursor: Cursor


class ShardCounts(View):
    """`counts`: how many of its entries are due in each bucket."""

    id: str
    entries: Annotated[int, Meta(description="How many it holds in all.")]
    counts: list[int]


class MissingShard(View):
    id: str
    reason: str


class WheelView(View):
    """Entries by bucket and shard. The last bucket may be cut short by `to`."""

    items: list[ShardCounts]
    next_cursor: Cursor
    from_: At = msgspec.field(name="from")
    to: At
    bucket_ms: int
    counts: Annotated[list[int], Meta(description="Of all shards that answered, together.")]
    complete: Annotated[bool, Meta(description="Whether every shard answered.")]
    missing: list[MissingShard]


class ShardLeftView(View):
    """What a drain or its end leaves."""

    id: str
    state: Literal["active", "draining", "leaving", "gone"]
    partitions: Annotated[int, Meta(description="How many it owns still.")]
    drained: bool


class RebalanceView(View):
    asked: bool
    partitions: Annotated[int, Meta(description="How many are to change their owner, as it stands.")]


class PartitionMove(View):
    partition: int
    from_: str | None = msgspec.field(name="from")
    to: str
    jobs: int


class PlannedView(View):
    """Moves, with how long they should take."""

    partitions: int
    jobs: int
    expected_s: float
    moves: list[PartitionMove]


class StandingView(PlannedView):
    """Where a rebalance stands; its own moves are those on their way."""

    state: Literal["off", "ready", "in_progress", "stalled"]
    reason: str
    remedy: str
    automatic: bool
    leader: str | None
    generation: int | None
    planned_because: str | None
    draining: str | None
    pins: int
    planned: PlannedView


class AutomaticView(View):
    automatic: bool


class MovedView(View):
    id: str
    partition: int
    owner: str | None
    pin: str | None


class AlertView(View):
    """Something wrong with the cluster, from its opening to its end."""

    id: Id
    rule: Annotated[str, Meta(description="Which rule of docs/alerts.md.")]
    subject: Annotated[str, Meta(description="What it is about, such as a shard; empty: the cluster.")]
    state: Literal["open", "resolved"]
    severity: Literal["warning", "critical"]
    value: Annotated[float, Meta(description="The figure when it was seen last.")]
    sentence: Annotated[str, Meta(description="For people.")]
    remedy: Annotated[str, Meta(description="What to do about it.")]
    runbook: str
    facts: dict[str, Any]
    opened_at: At
    last_seen_at: At
    notified_at: At | None
    resolved_at: At | None
    silenced_until: At | None


class AlertPage(View):
    items: list[AlertView]
    next_cursor: Cursor


class AuditEntry(View):
    id: str
    at: At
    actor: str
    role: str
    action: str
    object_kind: str
    object_id: str
    details: Annotated[dict[str, Any], Meta(description="What was before and what is after.")]


class AuditPage(View):
    items: list[AuditEntry]
    next_cursor: Cursor
