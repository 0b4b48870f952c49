"""The handlers that the pages speak of."""

from __future__ import annotations

from typing import Any

from shardwheel import Fatal, handler


@handler("email.send")
async def send(ctx: Any, params: dict[str, Any]) -> None:
    ctx.log("sent", to=params.get("to"))
    if "@" not in params.get("to", "@"):
        raise ValueError(f"{params['to']} is no address")
    if params.get("fatal"):
        raise Fatal("no such user")


@handler("report.build")
async def build(ctx: Any, params: dict[str, Any]) -> dict[str, int]:
    if params.get("slow") and ctx.first_attempt:
        raise TimeoutError("the warehouse did not answer")
    return {"pages": 3}


@handler("files.list")
async def list_files(ctx: Any, params: dict[str, Any]) -> list[str]:
    return ["a.csv", "b.csv"]


@handler("files.convert")
@handler("files.report")
@handler("files.audit")
async def work(ctx: Any, params: dict[str, Any]) -> int:
    if params.get("fatal"):
        raise Fatal("there is no point")
    return 1
