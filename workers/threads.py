"""Plain handlers: each in a thread, which nobody can stop from outside.

A thread that is given up runs on until its handler returns. Until then its place among the worker's threads
stays taken (trio's limiter sees to that), and the gauge of the abandoned counts it: a handler that never
looks at `ctx.cancelled` must not make the worker start ever more threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import trio

from shardwheel.metrics import ABANDONED
from shardwheel.workers.context import PlainContext


class InThread:
    """One call of one plain handler."""

    __slots__ = ("_context", "_is_abandoned", "_is_over", "_lock", "has_begun")

    def __init__(self, context: PlainContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._is_abandoned = self._is_over = self.has_begun = False

    async def run(self, function: Callable[..., Any], params: Any, threads: trio.CapacityLimiter) -> Any:
        """Wait for a thread, then for the handler. Cancelled, it waits no more: see `abandon`."""
        return await trio.to_thread.run_sync(
            self._call, function, params, abandon_on_cancel=True, limiter=threads
        )

    def _call(self, function: Callable[..., Any], params: Any) -> Any:
        with self._lock:
            if self._is_abandoned:  # Before its first line: somebody else will run it.
                return None
            self.has_begun = True
        try:
            return function(self._context, params)
        finally:
            with self._lock:
                self._is_over = True
                if self._is_abandoned:
                    ABANDONED.dec()

    def abandon(self) -> bool:
        """Nobody waits any more; true if the handler still runs."""
        self._context.end()
        with self._lock:
            self._is_abandoned = True
            still_runs = self.has_begun and not self._is_over
            if still_runs:
                ABANDONED.inc()
        return still_runs
