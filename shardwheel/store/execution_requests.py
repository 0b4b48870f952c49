"""What people ask of an execution, on record."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.requests import cancel_execution
from shardwheel.store.sql import sql


def cancel_on_record(
    conn: Connection[Any], tenant_id: str, execution_id: bytes, actor: Actor, job_id: bytes | None = None
) -> str:
    """Cancel an execution as `cancel_execution` does; what changed nothing is not put on record."""
    values = {"execution_id": Uuid(execution_id), "tenant_id": tenant_id}
    before = conn.execute(sql("lock_execution"), values).fetchone()
    outcome = cancel_execution(conn, tenant_id, execution_id, job_id)
    if outcome != "already_done":
        details = {"before": {"state": before and before[0]}, "after": {"outcome": outcome}}
        write_audit(conn, tenant_id, actor, "execution.cancel", "execution", text_of(execution_id), details)
    return outcome
