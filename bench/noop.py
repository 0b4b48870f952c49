"""The handlers of the benchmarks' jobs: what is measured is everything around them."""

from __future__ import annotations

from typing import Any

from shardwheel.bench.mix import TASK
from shardwheel.handler import handler

BROKEN = "bench.broken"


@handler(TASK)
async def noop(ctx: Any, params: dict[str, Any]) -> None:
    pass


@handler(BROKEN)
async def broken(ctx: Any, params: dict[str, Any]) -> None:
    raise ConnectionError("what it needs is away")
