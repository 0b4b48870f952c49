"""An async handler in a child: trio around it, and SIGTERM cancels it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from shardwheel.workers.context import Context


class Cancelled(Exception):  # noqa: N818 - what happened, not what went wrong
    """The handler was cancelled before it ended. The worker knows why; this is never shown."""


def run_async(function: Callable[..., Any], context: Context, params: Any) -> Any:
    return trio.run(_run, function, context, params)


async def _run(function: Callable[..., Any], context: Context, params: Any) -> Any:
    from shardwheel.workers.child import STOP_SIGNALS

    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery(strict_exception_groups=False) as nursery:
            nursery.start_soon(_cancel_at_signal, signals, context, nursery.cancel_scope)
            value = await function(context, params)
            nursery.cancel_scope.cancel()
            return value
    raise Cancelled


async def _cancel_at_signal(signals: Any, context: Context, scope: trio.CancelScope) -> None:
    async for _ in signals:
        context.cancelled = True
        scope.cancel()
