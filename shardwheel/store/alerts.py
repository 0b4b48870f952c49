"""Alerts on record: so that a watcher that starts anew repeats nothing, and two of them never tell twice.

Functions on the caller's own transaction. What a receiver ought to know follows from the alert's row, what it
knows stands in `alert_deliveries`; the difference is delivered, again and again until it is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from psycopg import Connection

from shardwheel.alert import Alert, Delivery, Finding, TableFigures
from shardwheel.errors import NotFoundError
from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.page import id_of_cursor, number_of_cursor
from shardwheel.store.sql import sql
from shardwheel.times import END_MS, refuse

_Connection = Connection[Any]

DELIVERIES_AT_ONCE = 100
KEPT = timedelta(days=90)


def take_watch(conn: _Connection, holder: str, lease_s: float) -> bool:
    """Watch from now on, or go on; false while another process does."""
    given = {"holder": holder, "lease": timedelta(seconds=lease_s)}
    return conn.execute(sql("take_alert_watch"), given).fetchone() is not None


def leave_watch(conn: _Connection, holder: str) -> None:
    conn.execute(sql("leave_alert_watch"), {"holder": holder})


def read_figures(conn: _Connection) -> TableFigures:
    (row,) = conn.execute(sql("alert_figures"))
    return TableFigures._make(row)


def store_look(
    conn: _Connection, holder: str, findings: Sequence[Finding], resolved: Sequence[bytes]
) -> bool:
    """Put on record what a look found, and what is over; false, and nothing, when another one watches now."""
    if not _holds(conn, holder):
        return False
    rows = msgspec.json.encode([finding._asdict() for finding in findings]).decode()
    conn.execute(sql("see_alerts"), {"findings": rows})
    conn.execute(sql("resolve_alerts"), {"alert_ids": Uuids(list(resolved))})
    return True


def list_alerts(
    conn: _Connection,
    *,
    is_open: bool | None = True,
    limit: int = 100,
    before: tuple[int, bytes] | None = None,
) -> list[Alert]:
    """A page of alerts, the newest first: open ones, those that are over, or (None) both. `before`: when the
    last one of the page before was opened, and its id."""
    before_ms, before_id = before or (None, bytes(16))
    given = {"open": is_open, "limit": limit, "before_ms": before_ms, "before_id": Uuid(before_id)}
    return [Alert._make(row) for row in conn.execute(sql("list_alerts"), given)]


def cursor_of_alert(alert: Alert) -> str:
    return f"{alert.opened_ms}-{text_of(alert.alert_id)}"


def place_of_cursor(cursor: str) -> tuple[int, bytes]:
    """`before` of the next page."""
    opened, _, alert_id = cursor.partition("-")
    opened_ms = number_of_cursor(opened)
    if opened_ms >= END_MS:
        refuse("cursor", f"{cursor!r:.80} is none of ours", "copy it as it was given")
    return opened_ms, id_of_cursor(alert_id)


def silence_of(conn: _Connection, alert_id: bytes) -> int | None:
    """Until when an alert is silenced, in milliseconds; it is locked until the transaction ends."""
    row = conn.execute(sql("silence_of"), {"alert_id": Uuid(alert_id)}).fetchone()
    return None if row is None else row[0]


def silence_alert(conn: _Connection, alert_id: bytes, length_ms: int, by: str) -> Alert:
    """Tell nobody of it for so long (0: end the silence). It stays open, and on the list."""
    given = {"alert_id": Uuid(alert_id), "length": timedelta(milliseconds=length_ms), "by": by}
    row = conn.execute(sql("silence_alert"), given).fetchone()
    if row is None:
        raise NotFoundError(f"there is no alert {text_of(alert_id)}", field="id")
    return Alert._make(row)


def begin_deliveries(conn: _Connection, holder: str, receivers: Sequence[str]) -> list[Delivery]:
    """What is to be told now; none when another one watches. A try that does not end is made again later."""
    if not _holds(conn, holder):
        return []
    given = {"receivers": list(receivers), "most": DELIVERIES_AT_ONCE}
    rows = conn.execute(sql("begin_deliveries"), given)
    return [Delivery(receiver, tell, Alert._make(alert)) for receiver, tell, *alert in rows]


def end_delivery(conn: _Connection, delivery: Delivery, error: str | None) -> None:
    """It was told, or why not."""
    given = {
        "alert_id": Uuid(delivery.alert.alert_id),
        "receiver": delivery.receiver,
        "tell": delivery.tell,
        "error": error,
    }
    conn.execute(sql("end_delivery"), given)


def forget_alerts(conn: _Connection) -> int:
    """Retention: how many went that were over long ago."""
    return conn.execute(sql("forget_alerts"), {"age": KEPT}).rowcount


def _holds(conn: _Connection, holder: str) -> bool:
    return conn.execute(sql("hold_alert_watch"), {"holder": holder}).fetchone() is not None
