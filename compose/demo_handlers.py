"""The handlers of the demo: what a user's own module looks like."""

from __future__ import annotations

from typing import Any

from shardwheel import Fatal, Retryable, handler


@handler("demo.hello")
async def hello(ctx: Any, params: dict[str, Any]) -> str:
    return f"hello, {params.get('name', 'world')}"


@handler("demo.flaky")
async def flaky(ctx: Any, params: dict[str, Any]) -> str:
    if ctx.first_attempt:
        raise Retryable("the first attempt always fails", after_s=0.1)
    return f"succeeded at attempt {ctx.attempt}"


@handler("demo.hopeless")
def hopeless(ctx: Any, params: dict[str, Any]) -> None:
    raise Fatal("this one ends in the dead letters")


@handler("demo.list")
async def listing(ctx: Any, params: dict[str, Any]) -> list[str]:
    return list(params["items"])


@handler("demo.shout")
async def shout(ctx: Any, params: dict[str, Any]) -> str:
    return str(params["item"]).upper()


@handler("demo.collect")
async def collect(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    return dict(await ctx.inputs())


@handler("demo.fragile")
async def fragile(ctx: Any, params: dict[str, Any]) -> str:
    if ctx.first_attempt:
        raise Fatal("this one is a dead letter until somebody redrives it")
    return f"succeeded at attempt {ctx.attempt}"
