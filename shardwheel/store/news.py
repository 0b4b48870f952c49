"""What happened to a tenant's things in the last few seconds: what listeners of `/events` are told of."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from shardwheel.store.link import Connection
from shardwheel.store.sql import sql

# A row's time is taken before its commit: so each look goes back over some seconds that were seen already.
WINDOW = timedelta(seconds=10)
MOST_ROWS = 500
HOLDS = ("paused", "task_paused", "concurrency", "rate_limit", "breaker_open", "handler_unknown", "overlap")


class Item(NamedTuple):
    """`kind`: execution (it ended), dead_letter (a new one) or change (somebody did something)."""

    kind: str
    id: str
    data: dict[str, Any]


class News(NamedTuple):
    """`held`: how many are, by reason; counting stops at 500."""

    items: list[Item]
    held: dict[str, int]


def read_news(conn: Connection, tenant_id: str) -> News:
    given = {"tenant_id": tenant_id, "window": WINDOW, "most": MOST_ROWS, "reasons": list(HOLDS)}
    rows = conn.execute(sql("news"), given, prepare=False).fetchall()
    items = [Item(kind, name, data) for kind, name, data in rows if kind != "held"]
    return News(items, {name: data for kind, name, data in rows if kind == "held"})
