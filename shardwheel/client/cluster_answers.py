"""What the API answers about the cluster, as frozen values: who fires what, what was done, what is wrong."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from shardwheel.client.answers import Answer


class Shard(Answer, frozen=True, kw_only=True):
    """A shard that is alive."""

    id: str
    state: str
    zone: str = ""
    leader: bool = False
    partitions: int = 0
    standbys: int = 0
    address: str = ""
    version: str = ""
    started_at: datetime | None = None


class Partition(Answer, frozen=True, kw_only=True):
    """Who owns it, and how far it was fired."""

    id: str
    partition: int
    state: str
    owner: str | None = None
    standby: str | None = None
    planned: str | None = None
    pin: str | None = None
    jobs: int = 0
    fired_through: datetime | None = None
    behind_s: float | None = None
    claimed_through: datetime | None = None
    epoch: int = 0


class ShardCounts(Answer, frozen=True, kw_only=True):
    """How many of a shard's entries are due in each bucket."""

    id: str
    entries: int
    counts: tuple[int, ...]


class Wheel(Answer, frozen=True, kw_only=True):
    """Entries by bucket and shard. Not `complete`: some shard, see `missing`, did not answer."""

    items: tuple[ShardCounts, ...]
    from_: datetime = msgspec.field(name="from")
    to: datetime
    bucket_ms: int
    counts: tuple[int, ...]
    complete: bool
    missing: tuple[dict[str, str], ...] = ()


class SteeredShard(Answer, frozen=True, kw_only=True):
    """What a drain or its end leaves."""

    id: str
    state: str
    partitions: int
    drained: bool


class Rebalance(Answer, frozen=True, kw_only=True):
    """`partitions`: how many are to change their owner, as it stands."""

    asked: bool
    partitions: int


class Move(Answer, frozen=True, kw_only=True):
    """A partition on its way; `from_` is None when nobody owns it."""

    partition: int
    from_: str | None = msgspec.field(name="from", default=None)
    to: str
    jobs: int = 0


class Moves(Answer, frozen=True, kw_only=True):
    """Partitions with their jobs, and how long they should take all together."""

    partitions: int
    jobs: int
    expected_s: float
    moves: tuple[Move, ...] = ()


class RebalanceStatus(Moves, frozen=True, kw_only=True):
    """Where a rebalance stands, and what is on its way. `state`: off, ready, in_progress or stalled;
    `planned`: what one would move."""

    state: str
    reason: str = ""
    remedy: str = ""
    automatic: bool
    leader: str | None = None
    generation: int | None = None
    planned_because: str | None = None
    draining: str | None = None
    pins: int = 0
    planned: Moves


class Automatic(Answer, frozen=True, kw_only=True):
    """Whether partitions are levelled whenever a shard joins or leaves."""

    automatic: bool


class MovedPartition(Answer, frozen=True, kw_only=True):
    """`pin`: the shard that is to own it; `owner`: the one that does now."""

    id: str
    partition: int
    owner: str | None = None
    pin: str | None = None


class Pool(Answer, frozen=True, kw_only=True):
    """`lag`: how many fires no worker has taken yet; None while that is not known."""

    id: str
    lag: int | None = None


class AuditEntry(Answer, frozen=True, kw_only=True):
    """Who did what; `details` has what was before and what is after."""

    id: str
    at: datetime
    actor: str
    role: str
    action: str
    object_kind: str
    object_id: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class Alert(Answer, frozen=True, kw_only=True):
    """Something wrong with the cluster, from its opening to its end."""

    id: str
    rule: str
    subject: str
    state: str
    severity: str
    value: float
    sentence: str
    remedy: str
    runbook: str = ""
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    opened_at: datetime
    last_seen_at: datetime
    notified_at: datetime | None = None
    resolved_at: datetime | None = None
    silenced_until: datetime | None = None
