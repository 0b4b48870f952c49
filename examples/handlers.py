"""The README's handler. Run it: `shardctl dev --handlers handlers` in this folder."""

from __future__ import annotations

from typing import Any

from shardwheel import handler


@handler("email.send", pool="short", timeout_s=30)
async def send(ctx: Any, params: dict[str, Any]) -> None:
    print("to", params["to"], "attempt", ctx.attempt)
