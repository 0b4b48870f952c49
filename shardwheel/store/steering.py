"""What the people who steer a cluster ask of PostgreSQL: how much there is, and to fire a span again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shardwheel.errors import ConflictError
from shardwheel.output import shown_time
from shardwheel.store.link import Connection
from shardwheel.store.sql import sql


class SetBack(NamedTuple):
    """A partition whose watermark went back, from and to when."""

    partition: int
    was_ms: int
    is_ms: int


def count_jobs(connection: Connection, tenant_id: str | None = None) -> dict[int, int]:
    """Active jobs by partition, a tenant's or all; those without any are left out. Reads a whole index: not
    for a hot path."""
    return dict(connection.execute(sql("job_counts"), {"tenant_id": tenant_id}))


def last_taken_ms(connection: Connection) -> int:
    """When a partition was taken last; 0 when none ever was."""
    ((taken_ms,),) = connection.execute(sql("last_taken"))
    return int(taken_ms)


def set_back(connection: Connection, partitions: Sequence[int], since_ms: int | None) -> list[SetBack]:
    """Fire these partitions again from this time on (None: from the claim floor). Those that had not got so
    far are left out.

    Safe while shards run: the owner is refused, takes the partition anew and goes on from here. What ran
    before is dropped at the claim, by its row: so nothing is set back to where rows may be gone."""
    ((gone_through_ms,),) = connection.execute(sql("gone_through"))
    if since_ms is not None and since_ms < gone_through_ms:
        raise ConflictError(
            f"since: retention removed what ran up to {shown_time(gone_through_ms)}, which would run again; "
            "choose that time or a later one",
            field="since",
        )
    given = {"partitions": list(partitions), "since_ms": since_ms}
    return sorted(map(SetBack._make, connection.execute(sql("set_back"), given)))
