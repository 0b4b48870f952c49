"""The handler of the benchmarks' jobs: what is measured is everything around it."""

from __future__ import annotations

from typing import Any

from shardwheel.bench.mix import TASK
from shardwheel.handler import handler


@handler(TASK)
async def noop(ctx: Any, params: dict[str, Any]) -> None:
    pass
