"""Reading executions, for people: lists and single ones with all that happened to them. Never another
tenant's: the tenant is part of every statement, whatever role reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.errors import NotFoundError
from shardwheel.execution import ExecutionState
from shardwheel.ids import first_id_at, text_of
from shardwheel.output import shown_time
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.callbacks import callbacks_of
from shardwheel.store.execution_row import ExecutionRow, attempt_as_read
from shardwheel.store.notes import read_logs
from shardwheel.store.page import Page, checked_limit, id_of_cursor, page_of
from shardwheel.store.sql import is_few, sql
from shardwheel.times import refuse

_LAST_ID = b"\xff" * 16


class ExecutionFilter(NamedTuple):
    """Which executions; None: whatever. `text`: a part of its job's name or task, in whatever case. The times
    are scheduled ones, the first included, the end not."""

    state: str | None = None
    reason: str | None = None
    origin: str | None = None
    task: str | None = None
    tag: str | None = None
    text: str | None = None
    job_id: bytes | None = None
    from_ms: int | None = None
    until_ms: int | None = None


ALL_EXECUTIONS = ExecutionFilter()


def list_executions(
    conn: Connection[Any],
    tenant_id: str,
    wanted: ExecutionFilter = ALL_EXECUTIONS,
    *,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """A page of executions, the latest scheduled time first."""
    if wanted.state is not None and wanted.state not in set(ExecutionState):
        refuse("state", f"{wanted.state!r:.80} is unknown", f"choose one of {', '.join(ExecutionState)}")
    last_id = _LAST_ID if wanted.until_ms is None else first_id_at(wanted.until_ms)
    parameters = {
        **wanted._asdict(),
        "tenant_id": tenant_id,
        "job_id": None if wanted.job_id is None else Uuid(wanted.job_id),
        "first_id": Uuid(first_id_at(wanted.from_ms or 0)),
        "before_id": Uuid(last_id if cursor is None else min(last_id, id_of_cursor(cursor))),
        "limit": checked_limit(limit),
    }
    rows = conn.execute(sql("list_executions"), parameters, prepare=False).fetchall()
    return page_of(
        [ExecutionRow._make(row) for row in rows],
        limit,
        ExecutionRow.as_read,
        lambda row: text_of(row.execution_id),
    )


def get_execution(conn: Connection[Any], tenant_id: str, execution_id: bytes) -> dict[str, Any]:
    """An execution as read, with its attempts, oldest first, and who was told of its end."""
    (shown,) = read_executions(conn, tenant_id, [execution_id])
    return existing(execution_id, shown)


def existing(execution_id: bytes, shown: dict[str, Any] | None) -> dict[str, Any]:
    if shown is None:
        raise NotFoundError(f"there is no execution {text_of(execution_id)}", field="id")
    return shown


def read_executions(
    conn: Connection[Any], tenant_id: str, execution_ids: Sequence[bytes]
) -> list[dict[str, Any] | None]:
    """Some executions as `get_execution` has each, in the order of the ids; None for what is not there, or
    another tenant's."""
    parameters = {"tenant_id": tenant_id, "execution_ids": Uuids(execution_ids)}
    few = is_few(len(execution_ids))
    rows = {row[0]: row for row in conn.execute(sql("read_executions"), parameters, prepare=few)}
    callbacks = callbacks_of(conn, tenant_id, list(rows))
    shown = {
        execution_id: ExecutionRow._make(columns).as_read()
        | {"attempts": [attempt_as_read(one) for one in attempts], "callbacks": callbacks[execution_id]}
        for execution_id, (*columns, attempts) in rows.items()
    }
    return [shown.get(execution_id) for execution_id in execution_ids]


def get_logs(
    conn: Connection[Any], tenant_id: str, execution_id: bytes, attempt: int | None = None
) -> list[dict[str, Any]]:
    """The log lines of an execution that were kept, oldest first, of one attempt or of all, as read."""
    get_execution(conn, tenant_id, execution_id)
    return [
        {
            "id": f"{line.attempt}.{line.number}",
            "attempt": line.attempt,
            "number": line.number,
            "at": shown_time(line.at_ms),
            "level": line.level,
            "text": line.text,
        }
        for line in read_logs(conn, tenant_id, execution_id, attempt)
    ]
