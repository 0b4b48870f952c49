"""Shardwheel: a sharded job scheduler.

The words of the system are values in this package (job, execution, schedule, partition), the edges
(store, kafka, etcd) talk to the servers, and the rooms (wheel, shard, coordinator, workers, results,
api) are given edges through the protocols in `ports`. docs/architecture.md draws the way through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardwheel.handler import Fatal, Retryable, Superseded, handler

if TYPE_CHECKING:
    from shardwheel.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Fatal", "Retryable", "Superseded", "handler"]


def __getattr__(name: str) -> Any:
    """The clients bring an HTTP driver along: whoever only writes handlers does not pay for it."""
    if name in ("AsyncClient", "Client"):
        from shardwheel import client

        return getattr(client, name)
    raise AttributeError(f"module 'shardwheel' has no attribute {name!r}")
