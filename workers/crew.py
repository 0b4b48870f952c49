"""The crew: tasks that stay and take one attempt after the other.

A task and a cancel scope for each attempt cost more than all else that a worker does for a short one. So a
runner keeps both, and goes on with the next attempt as long as there is one. Runners are made on demand:
before a runner calls a handler, it calls another runner if more attempts wait. If the handler never waits,
that one comes too late and rests; if it does wait, that one goes on with the rest. So short attempts need
two runners, and 10,000 sleeping ones 10,000.

    waiting a b c   runner 1: a ── b ── c ── rests           (no handler waits)
                    runner 2:               rests
    waiting a b c   runner 1: a … sleeps …                   (handlers wait)
                    runner 2:   b … sleeps …
                    runner 3:     c … sleeps …

What an attempt leaves behind ends with its runner: a scope that was cancelled is replaced, and a runner
whose context variables were changed is let go.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context

import trio

from shardwheel.handler import Registry
from shardwheel.workers.run import End, Running, Workshop

# Runners that rest; more are let go. A resting one costs a few KB.
MOST_RESTING = 1_000
# Handlers that never wait follow each other for so long, then everything else gets its turn.
LONGEST_STRETCH_S = 0.005


class Crew:
    """`ended` is told how each attempt ended, in the trio thread."""

    def __init__(
        self,
        nursery: trio.Nursery,
        registry: Registry,
        workshop: Workshop,
        ended: Callable[[Running, End], None],
    ) -> None:
        self._nursery = nursery
        self._registry = registry
        self._workshop = workshop
        self._ended = ended
        self._waiting: deque[Running] = deque()
        self._resting = trio.lowlevel.ParkingLot()
        self._on_its_way = False

    def take_on(self, attempts: Iterable[Running]) -> None:
        self._waiting.extend(attempts)
        self._call_a_runner()

    def _call_a_runner(self) -> None:
        """One at a time: whoever comes calls the next one, should it be needed."""
        if self._on_its_way or not self._waiting:
            return
        self._on_its_way = True
        if self._resting:
            self._resting.unpark()
        else:
            self._nursery.start_soon(self._run)

    async def _run(self) -> None:
        self._on_its_way = False
        runner = _Runner()
        while runner.is_unmarked and len(self._resting) < MOST_RESTING:
            try:
                with runner.scope:
                    await self._run_on(runner)
            except BaseException:
                if runner.attempt is None:
                    raise
                # What a handler raised while it was cut off, beside the cancellation. That of the crew
                # itself is not to be lost with it.
                await trio.lowlevel.checkpoint_if_cancelled()
            if runner.attempt is not None:
                self._ended(runner.attempt, runner.attempt.cut_off())
            runner.renew()
        self._call_a_runner()  # In its place, should anything wait.

    async def _run_on(self, runner: _Runner) -> None:
        """Attempt after attempt, until the scope was used up or nobody needs this runner."""
        while not runner.scope.cancel_called and runner.is_unmarked:
            if not self._waiting:
                if len(self._resting) >= MOST_RESTING:
                    return
                await self._rest(runner)
                continue
            runner.attempt = attempt = self._waiting.popleft()
            self._call_a_runner()
            self._ended(attempt, await self._call(attempt, runner.scope))
            runner.attempt = None
            await runner.breathe()

    async def _rest(self, runner: _Runner) -> None:
        runner.scope.deadline = math.inf
        await self._resting.park()
        self._on_its_way = False

    async def _call(self, attempt: Running, scope: trio.CancelScope) -> End:
        if attempt.is_unwanted:
            return attempt.cut_off()
        handler = self._registry.get(attempt.claimed.task)
        assert handler is not None, "the claim holds what has no handler"
        return await attempt.call(handler, self._workshop, scope)


class _Runner:
    """What one task of the crew keeps from attempt to attempt."""

    __slots__ = ("_breathed_at", "_context", "attempt", "scope")

    def __init__(self) -> None:
        self._context = copy_context()
        self._breathed_at = trio.current_time()
        self.renew()

    def renew(self) -> None:
        self.attempt: Running | None = None
        self.scope = trio.CancelScope()

    @property
    def is_unmarked(self) -> bool:
        """No handler has set a context variable, which the next one would read."""
        return copy_context() == self._context

    async def breathe(self) -> None:
        """Let everything else have its turn, now and then."""
        if trio.current_time() - self._breathed_at > LONGEST_STRETCH_S:
            self.scope.deadline = math.inf
            await trio.lowlevel.checkpoint()
            self._breathed_at = trio.current_time()
