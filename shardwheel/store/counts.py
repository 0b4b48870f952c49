"""Figures for the metrics: how much is held and dead in some partitions. The sweep counts now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from shardwheel.execution import Counts
from shardwheel.store.sql import sql


def read_counts(conn: Connection[Any], partitions: Sequence[int]) -> Counts:
    held: dict[str, int] = {}
    dead = 0
    for what, reason, count in conn.execute(sql("counts"), {"partitions": list(partitions)}):
        if what == "held":
            held[reason] = count
        else:
            dead = count
    return Counts(held, dead)
