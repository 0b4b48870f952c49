"""Shardwheel: a sharded job scheduler.

The words of the system are values in this package (job, execution, schedule, partition), the edges
(store, kafka, etcd) talk to the servers, and the rooms (wheel, shard, coordinator, workers, results,
api) are given edges through the protocols in `ports`. docs/architecture.md draws the way through.
"""

from shardwheel.handler import Fatal, Retryable, handler

__all__ = ["Fatal", "Retryable", "handler"]
