"""`shardctl dag`: all its verbs together."""

from __future__ import annotations

from shardwheel.commands.dag import app
from shardwheel.commands.dag_hands import cancel, force_complete, rerun, skip
from shardwheel.commands.verbs import verb

__all__ = ["app"]

verb(app, "force-complete")(force_complete)
verb(app)(skip)
verb(app)(rerun)
verb(app)(cancel)
