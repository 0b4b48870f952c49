"""The outbox of callbacks: a trigger writes a row when an execution ends, whoever ended it; here they are
taken, and what became of each try is written down. At least once: what a taker that died held comes again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from shardwheel.execution import Callback
from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.execution_row import time_or_none
from shardwheel.store.sql import is_few, sql

# Far longer than one try may take.
LEASE = timedelta(seconds=60)
MOST_OF_ONE = 4


def take_callbacks(conn: Connection[Any], most: int, busy: Collection[str]) -> list[Callback]:
    """Callbacks to try now, at most so many, none for the hosts that are busy."""
    parameters = {"most": most, "busy": list(busy), "most_of_one": MOST_OF_ONE, "lease": LEASE}
    rows = conn.execute(sql("take_callbacks"), parameters, prepare=False)
    return [Callback._make(row) for row in rows]


def callback_delivered(conn: Connection[Any], callback: Callback) -> None:
    _end(conn, callback, "delivered", None, timedelta())


def callback_failed(conn: Connection[Any], callback: Callback, problem: str, pause: timedelta | None) -> None:
    """Try again after `pause`; None: it is given up."""
    _end(conn, callback, "given_up" if pause is None else "open", problem, pause or timedelta())


def callbacks_of(
    conn: Connection[Any], tenant_id: str, execution_ids: Sequence[bytes]
) -> dict[bytes, list[dict[str, Any]]]:
    """Those of each of these executions, as read with it."""
    parameters = {"tenant_id": tenant_id, "execution_ids": Uuids(execution_ids)}
    found: dict[bytes, list[dict[str, Any]]] = {execution_id: [] for execution_id in execution_ids}
    for row in conn.execute(sql("callbacks_of"), parameters, prepare=is_few(len(found))):
        execution_id, callback_id, url, state, tries, problem, due_ms, ended_ms = row
        shown = {
            "id": text_of(callback_id),
            "url": url,
            "state": state,
            "tries": tries,
            "problem": problem,
            "next_try_at": time_or_none(due_ms),
            "ended_at": time_or_none(ended_ms),
        }
        found[execution_id].append(shown)
    return found


def _end(
    conn: Connection[Any], callback: Callback, state: str, problem: str | None, pause: timedelta
) -> None:
    parameters = {
        "callback_id": Uuid(callback.callback_id),
        "tries": callback.tries,
        "state": state,
        "problem": problem,
        "pause": pause,
    }
    conn.execute(sql("end_callback"), parameters)
