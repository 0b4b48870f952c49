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
