"""The handlers of the loop's tests: what a user would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from shardwheel import Fatal, Retryable, handler


@handler("echo")
async def echo(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    return {"params": params, "attempt": ctx.attempt}


@handler("plain")
def plain(ctx: Any, params: dict[str, Any]) -> int:
    return int(params["number"]) + 1


@handler("flaky")
async def flaky(ctx: Any, params: dict[str, Any]) -> str:
    if ctx.first_attempt:
        raise Retryable("not yet", after_s=0)
    return "at last"


@handler("hopeless")
async def hopeless(ctx: Any, params: dict[str, Any]) -> None:
    raise Fatal("there is no point")


@handler("slow")
async def slow(ctx: Any, params: dict[str, Any]) -> int:
    """Says that it began, and sleeps until the file that the test makes is there."""
    Path(params["began"]).touch()
    while not await trio.Path(params["go"]).exists():
        await trio.sleep(0.02)
    return int(ctx.attempt)


@handler("count")
async def count(ctx: Any, params: dict[str, Any]) -> list[int]:
    return list(range(params["to"]))
