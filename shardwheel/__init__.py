"""Shardwheel: a sharded job scheduler.

The words of the system are values in this package (job, execution, schedule, partition), the edges
(store, kafka, etcd) talk to the servers, and the rooms (wheel, shard, coordinator, workers, results,
api) are given edges through the protocols in `ports`. docs/architecture.md draws the way through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardwheel.handler import Fatal, Retryable, Superseded, handler

if TYPE_CHECKING:
    from shardwheel.client import Client

__all__ = ["Client", "Fatal", "Retryable", "Superseded", "handler"]


def __getattr__(name: str) -> Any:
    """`Client` brings the database driver along: whoever only writes handlers does not pay for it."""
    if name == "Client":
        from shardwheel.client import Client

        return Client
    raise AttributeError(f"module 'shardwheel' has no attribute {name!r}")
