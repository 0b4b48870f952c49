"""The handlers of the cluster's tests: each run writes down that it began, and that it ended well."""

from __future__ import annotations

import os
from typing import Any

from shardwheel import Retryable, handler


@handler("steady")
async def steady(ctx: Any, params: dict[str, Any]) -> None:
    _write(params, "begins", ctx)
    _write(params, "succeeds", ctx)


@handler("flaky")
async def flaky(ctx: Any, params: dict[str, Any]) -> None:
    """Every run waits for a second attempt: the wheels and their mirrors hold more than jobs."""
    _write(params, "begins", ctx)
    if ctx.attempt == 1:
        raise Retryable("not yet", after_s=1)
    _write(params, "succeeds", ctx)


def _write(params: dict[str, Any], word: str, ctx: Any) -> None:
    """In one write: lines of runs that end at the same time must not mix."""
    file = os.open(params["runs"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{word} {ctx.execution_id} {ctx.attempt}\n".encode())
    finally:
        os.close(file)
