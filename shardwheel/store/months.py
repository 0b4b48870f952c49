"""The months of `executions` are made ahead of their time."""

from __future__ import annotations

from shardwheel.store.link import Connection

MONTHS_AHEAD = 3


def make_months(connection: Connection) -> list[str]:
    """Make those that are missing; returns their names."""
    ((made,),) = connection.execute("SELECT shardwheel.make_months(%s)", [MONTHS_AHEAD])
    return list(made)
