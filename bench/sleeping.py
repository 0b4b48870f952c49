"""The handler of `bench sleepers`: it sleeps for as long as the bench says."""

from __future__ import annotations

import os
from typing import Any

import trio

from shardwheel.bench.mix import TASK
from shardwheel.handler import handler

SLEEP_S = float(os.environ.get("BENCH_SLEEP_S", "1"))


@handler(TASK)
async def sleep(ctx: Any, params: dict[str, Any]) -> None:
    await trio.sleep(SLEEP_S)
