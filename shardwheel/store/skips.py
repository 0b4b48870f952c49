"""What a job did not run, and why."""

from __future__ import annotations

from typing import Any

from shardwheel.output import shown_time
from shardwheel.store.arrays import Uuid
from shardwheel.store.link import Connection
from shardwheel.store.sql import sql


def skips_of_job(conn: Connection, tenant_id: str, job_id: bytes, limit: int) -> list[dict[str, Any]]:
    """The latest skipped times as read, single ones and ranges, latest first."""
    given = {"tenant_id": tenant_id, "job_id": Uuid(job_id), "limit": limit}
    return [
        {"from": shown_time(first_ms), "to": shown_time(last_ms), "count": count, "reason": reason}
        for first_ms, last_ms, count, reason in conn.execute(sql("skips_of_job"), given, prepare=False)
    ]
