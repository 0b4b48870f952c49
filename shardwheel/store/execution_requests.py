"""What people ask of an execution, on record."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.dag_runs import lock_runs
from shardwheel.store.requests import Cancelled, cancel
from shardwheel.store.sql import sql


def cancel_on_record(
    conn: Connection[Any], tenant_id: str, execution_id: bytes, actor: Actor, job_id: bytes | None = None
) -> Cancelled:
    """Cancel an execution as `cancel` does; what changed nothing is not put on record. A DAG's run
    puts its end on record itself."""
    values = {"execution_id": Uuid(execution_id), "tenant_id": tenant_id}
    is_run = _lock_run(conn, values)
    state, was_asked = conn.execute(sql("lock_execution"), values).fetchone() or (None, False)
    cancelled = cancel(conn, tenant_id, execution_id, job_id, actor)
    changes_nothing = cancelled.outcome == "already_done" or (was_asked and state == "running")
    if not changes_nothing and not is_run:
        details = {"before": {"state": state}, "after": {"outcome": cancelled.outcome}}
        write_audit(conn, tenant_id, actor, "execution.cancel", "execution", text_of(execution_id), details)
    return cancelled


def _lock_run(conn: Connection[Any], values: dict[str, Any]) -> bool:
    """Lock the run that the execution is a task of, or is itself, before the execution: as everybody does.
    Whether it is one."""
    of_dag = conn.execute(sql("dag_run_of"), values, binary=True).fetchone()
    if of_dag is None or of_dag[0] is None:
        return False
    lock_runs(conn, [of_dag[0]])
    return bool(of_dag[-1])
