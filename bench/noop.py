"""The handlers of the benchmarks' jobs: what is measured is everything around them."""

from __future__ import annotations

import os
from typing import Any

import trio

from shardwheel.bench.mix import TASK
from shardwheel.handler import handler

BROKEN = "bench.broken"
SLEEPER = "bench.sleeper"
LISTER = "bench.lister"
SLEEP_S = "BENCH_SLEEP_S"


@handler(TASK)
async def noop(ctx: Any, params: dict[str, Any]) -> None:
    pass


@handler(BROKEN)
async def broken(ctx: Any, params: dict[str, Any]) -> None:
    raise ConnectionError("what it needs is away")


@handler(SLEEPER)
async def sleep(ctx: Any, params: dict[str, Any]) -> None:
    """For as long as the benchmark says in the worker's environment."""
    await trio.sleep(float(os.environ[SLEEP_S]))


@handler(LISTER)
async def numbers(ctx: Any, params: dict[str, Any]) -> list[int]:
    return list(range(params["to"]))
