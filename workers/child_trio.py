"""An async handler in a child: trio around it, and SIGTERM cancels it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import trio

from shardwheel.execution import Claimed
from shardwheel.handler import Handler
from shardwheel.workers.context import Context, PlainDesk
from shardwheel.workers.frames import Order


class StoppedError(Exception):
    """The handler was cancelled before it ended. The worker, who asked for it, knows better why."""


class ChildTrioDesk:
    """The desk of a child for an async handler (`context.Desk`): what waits, waits in a thread."""

    def __init__(self, desk: PlainDesk) -> None:
        self._desk = desk
        self.progress, self.log = desk.progress, desk.log

    async def checkpoint(self, claimed: Claimed, data: bytes) -> None:
        await trio.to_thread.run_sync(self._desk.checkpoint, claimed, data)

    async def load_checkpoint(self, claimed: Claimed) -> bytes:
        return await trio.to_thread.run_sync(self._desk.load_checkpoint, claimed)

    async def load_inputs(self, claimed: Claimed) -> bytes:
        return await trio.to_thread.run_sync(self._desk.load_inputs, claimed)


def call_async(
    handler: Handler, order: Order, desk: PlainDesk, params: Any, stop_signals: Sequence[signal.Signals]
) -> Any:
    return trio.run(_call, handler, order, ChildTrioDesk(desk), params, stop_signals)


async def _call(
    handler: Handler,
    order: Order,
    desk: ChildTrioDesk,
    params: Any,
    stop_signals: Sequence[signal.Signals],
) -> Any:
    context = Context(order.claimed, trio.current_time() + order.timeout_s, trio.current_time, desk)
    ended: list[Any] = []
    failure: Exception | None = None
    with trio.open_signal_receiver(*stop_signals) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at, signals, context, nursery.cancel_scope)
            try:
                ended.append(await handler.function(context, params))
            except Exception as error:  # Out of the nursery it would come wrapped in a group.
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not ended:
        raise StoppedError
    return ended[0]


async def _cancel_at(signals: AsyncIterator[int], context: Context, scope: trio.CancelScope) -> None:
    async for _ in signals:
        context.cancel()
        scope.cancel()
