"""The handlers of the loop's tests: what a user would write."""

from __future__ import annotations

import os
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


@handler("apart", isolated=True, cpu_s=5)
def apart(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    print("printed by a child")
    ctx.checkpoint({"at": 1})
    return {"checkpoint": ctx.load_checkpoint(), "sees": sorted(n for n in os.environ if "SHARDWHEEL" in n)}


@handler("slow")
async def slow(ctx: Any, params: dict[str, Any]) -> int:
    """Says that it began, and sleeps until the file that the test makes is there."""
    Path(params["began"]).touch()
    while not await trio.Path(params["go"]).exists():
        await trio.sleep(0.02)
    return int(ctx.attempt)


@handler("many")
async def many(ctx: Any, params: dict[str, Any]) -> int:
    """One of many: says which attempt began, and sleeps until the test lets all of them end."""
    ctx.log("began", attempt=ctx.attempt)
    (Path(params["folder"]) / f"{ctx.execution_id}.{ctx.attempt}").touch()
    while not (Path(params["folder"]) / "go").exists():
        await trio.sleep(0.2)
    return int(ctx.attempt)


@handler("tenth")
async def tenth(ctx: Any, params: dict[str, Any]) -> int:
    """An item of a fan-out: every tenth sleeps until the file that the test makes is there."""
    while params["item"] % 10 == 9 and not await trio.Path(params["go"]).exists():
        await trio.sleep(0.02)
    return int(params["item"])


@handler("resumes")
def resumes(ctx: Any, params: dict[str, Any]) -> Any:
    """A plain one that fails half-way and goes on from its checkpoint."""
    done = ctx.load_checkpoint() or []
    ctx.progress(50 if ctx.first_attempt else 100, f"attempt {ctx.attempt}")
    ctx.log.warning("key", key=params["key"])
    ctx.checkpoint([*done, ctx.attempt])
    if ctx.first_attempt:
        raise Retryable(f"not with {params['key']}", after_s=0)
    return {"done": ctx.load_checkpoint(), "length": len(params["key"])}


@handler("stoppable")
async def stoppable(ctx: Any, params: dict[str, Any]) -> None:
    Path(params["began"]).touch()
    await trio.sleep_forever()


@handler("count")
async def count(ctx: Any, params: dict[str, Any]) -> list[int]:
    return list(range(params["to"]))
