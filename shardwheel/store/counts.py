"""Figures for the metrics: how much is held, dead and late in some partitions. The sweep counts now and
then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from shardwheel.execution import Counts
from shardwheel.store.sql import sql


def read_counts(conn: Connection[Any], partitions: Sequence[int]) -> Counts:
    held: dict[str, int] = {}
    found: dict[str, int] = {}
    for what, reason, count in conn.execute(sql("counts"), {"partitions": list(partitions)}):
        if what == "held":
            held[reason] = count
        else:
            found[what] = count
    return Counts(held, found["dead"], found["late"])
