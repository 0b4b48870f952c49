"""`shardctl shard`: the service itself, and the verbs about shards together."""

from __future__ import annotations

from shardwheel.commands.shard import app
from shardwheel.commands.shards import drain_shard, list_shards, show_shard, undrain_shard
from shardwheel.commands.verbs import verb

__all__ = ["app"]

verb(app, "list")(list_shards)
verb(app, "show")(show_shard)
verb(app, "drain")(drain_shard)
verb(app, "undrain")(undrain_shard)
