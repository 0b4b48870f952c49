"""The rooms of the house, for tests that walk through all code."""

from __future__ import annotations

ROOMS = (
    "shardwheel",
    "wheel",
    "shard",
    "coordinator",
    "workers",
    "results",
    "api",
    "alerts",
    "compose",
    "bench",
)
