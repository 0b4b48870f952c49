"""The handler of `shardctl bench isolated`, for the fork server to import: it says when it began."""

from __future__ import annotations

import time
from typing import Any

from shardwheel import handler


@handler("bench.isolated", isolated=True)
def began_at(ctx: Any, params: Any) -> float:
    """By the machine's monotonic clock, which all its processes share."""
    return time.monotonic()
