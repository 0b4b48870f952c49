"""`shardctl job`: all its verbs together."""

from __future__ import annotations

from shardwheel.commands.job import app
from shardwheel.commands.job_edges import depend
from shardwheel.commands.job_files import apply, export
from shardwheel.commands.job_times import next_times
from shardwheel.commands.verbs import verb

__all__ = ["app"]

verb(app, "next")(next_times)
verb(app)(depend)
verb(app)(export)
verb(app)(apply)
