"""One attempt: call the handler within its time, and turn whatever happens into its end.

An async handler runs under trio and is cancelled at its time-out or when it is asked to stop. A plain one
runs in a thread, which can't be stopped from outside: it sees `ctx.cancelled`, has a grace to end by itself,
and is then given up: the attempt ends for us, the thread when it does, and until then its place among the
threads stays taken. An isolated one, async or plain, runs in a child process, which is killed after its grace
with all that it started.

    time-out or wish to stop      async: cancelled at once          plain, isolated: ctx.cancelled
    and GRACE_S later             given up (it shields itself)      given up (it does not look); killed

A handler that looked at `ctx.cancelled` and then returns has not done its work: that does not count. One that
comes to a good end a little late without having looked has, and it would be a pity to do it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
import trio

from shardwheel.execution import Claimed
from shardwheel.handler import Fatal, Handler, Retryable
from shardwheel.isolation import Limits
from shardwheel.logs import get_logger
from shardwheel.wire import FORMAT_VERSION, Outcome, Result
from shardwheel.workers import secrets
from shardwheel.workers.children import InChild
from shardwheel.workers.context import BaseContext, Context, Desk, PlainContext, PlainDesk
from shardwheel.workers.ending import encode_output, told
from shardwheel.workers.frames import Order
from shardwheel.workers.threads import InThread

# After a time-out or a wish to stop. The sweep steps in later (store.sweep.TIMEOUT_GRACE).
GRACE_S = 5.0
# Cancelled scopes cut in by themselves at GRACE_S; what is left after this is beyond them.
HOPELESS_AFTER_S = 1.0

_decode_params = msgspec.json.Decoder().decode


class End(NamedTuple):
    """How an attempt ended: the fields of its result that the handler had a say in."""

    outcome: Outcome
    error_class: str = ""
    message: str = ""
    traceback: str = ""
    output: bytes = b""
    retry_after_ms: int = -1


_SUCCESS = End(Outcome.SUCCEEDED)


class Isolator(Protocol):
    """Runs attempts in child processes (`isolated.Isolation`). Cancelled, it returns when nothing is left."""

    async def call(self, order: Order, child: InChild) -> End: ...


class Workshop(NamedTuple):
    """What a worker lends to every attempt."""

    threads: trio.CapacityLimiter
    desk: Desk
    plain_desk: PlainDesk
    secrets: secrets.Provider
    isolator: Isolator | None = None


class Running:
    """An attempt in hand. `stop` ends it as cancelled, `release` gives it back for another attempt; both
    also before it has begun. The cancel scope is its runner's, lent for as long as the handler runs."""

    __slots__ = (
        "_clock",
        "_context",
        "_deadline",
        "_ended_as",
        "_has_begun",
        "_limit_s",
        "_scope",
        "_started_at",
        "claimed",
        "is_over",
        "started_ms",
    )

    def __init__(
        self, claimed: Claimed, started_ms: int, started_at: float, clock: Callable[[], float]
    ) -> None:
        self.claimed = claimed
        self.started_ms = started_ms
        self._started_at = started_at
        self._clock = clock
        self._limit_s = claimed.timeout_ms / 1000
        self._deadline = started_at + self._limit_s
        self._scope: trio.CancelScope | None = None
        self._context: BaseContext[Any] | None = None
        self._ended_as: Outcome | None = None
        self._has_begun = self.is_over = False

    # --- the wish to stop ----------------------------------------------------------------------------

    def stop(self) -> None:
        self._end(Outcome.CANCELLED)

    def release(self) -> None:
        self._end(Outcome.RELEASED)

    def _end(self, outcome: Outcome) -> None:
        if self._ended_as is not None:
            return
        self._ended_as = outcome
        self._deadline = min(self._deadline, self._clock())
        if self._context is not None:
            self._context.cancel()
        if self._scope is not None:
            self._scope.deadline = self._cut_at

    @property
    def _cut_at(self) -> float:
        """When waiting for the handler ends: it is a plain one if it has a grace."""
        return self._deadline + (GRACE_S if isinstance(self._context, PlainContext) else 0.0)

    @property
    def is_unwanted(self) -> bool:
        """It was stopped, released or given up: if it has not begun, it need not."""
        return self._ended_as is not None or self.is_over

    def is_hopeless(self, now: float) -> bool:
        """It should have ended long ago, and will not by itself: it shields itself from being cancelled."""
        return now > self._deadline + GRACE_S + HOPELESS_AFTER_S and not self.is_over

    def give_up(self) -> End:
        """End it for everybody but its handler, whose end will not count any more."""
        if self._context is not None:
            self._context.end()
        return self.cut_off()

    def cut_off(self) -> End:
        """The end of an attempt whose handler was not let finish, or not even begin."""
        if self._ended_as is not None:
            return End(self._ended_as)
        if not self._has_begun:
            return End(Outcome.RELEASED)
        return End(Outcome.TIMED_OUT, "TimeoutError", f"it took longer than {self._limit_s:g} s")

    def result(self, worker: str, end: End) -> Result:
        claimed = self.claimed
        return Result(
            FORMAT_VERSION,
            claimed.execution_id,
            claimed.job_id,
            claimed.partition,
            claimed.attempt,
            claimed.claim_token,
            end.outcome,
            self.started_ms,
            self.started_ms + round((self._clock() - self._started_at) * 1000),
            worker,
            end.error_class,
            end.message,
            end.traceback,
            end.output,
            end.retry_after_ms,
            claimed.tenant_id,
            claimed.task,
            claimed.dag_run_id,
        )

    # --- the handler ---------------------------------------------------------------------------------

    async def call(self, handler: Handler, workshop: Workshop, scope: trio.CancelScope) -> End:
        """Call the handler within the scope, and never raise what it raised. Whoever entered the scope asks
        `cut_off` when it was cancelled."""
        self._scope = scope
        known: tuple[str, ...] = ()
        try:
            params = _decode_params(self.claimed.params)
            if secrets.MARK in self.claimed.params:
                params, known = await self._reveal(params, workshop.secrets)
            if handler.limits is not None:
                end = await self._run_in_child(handler.limits, params, known, workshop)
            else:
                value = await self._run(handler, params, known, workshop)
                output = b"" if value is None else encode_output(value, known)
                end = End(Outcome.SUCCEEDED, output=output) if output else _SUCCESS
        except BaseException as error:
            # A Ctrl-C comes as a signal, which the service takes: what is raised here is the handler's own.
            if _is_cancellation(error):
                raise
            end = _failed(error, known)
        finally:
            self._scope = None
            if self._context is not None:
                self._context.end()
        return end if self._clock() < self._deadline or self._is_well_done(end) else self.cut_off()

    def _is_well_done(self, end: End) -> bool:
        """It came to a good end, if late, and was not one that stopped half-way because it was told to."""
        return end.outcome is Outcome.SUCCEEDED and self._context is not None and not self._context.knows

    async def _run(self, handler: Handler, params: Any, known: tuple[str, ...], workshop: Workshop) -> Any:
        """The ways to run a handler: each makes a context, limits the scope, and waits for the value."""
        if handler.is_async:
            self._context = context = Context(self.claimed, self._deadline, self._clock, workshop.desk, known)
            self._limit_scope()
            self._has_begun = True
            return await handler.function(context, params)
        return await self._run_in_thread(handler, params, known, workshop)

    async def _run_in_thread(
        self, handler: Handler, params: Any, known: tuple[str, ...], workshop: Workshop
    ) -> Any:
        self._context = context = PlainContext(
            self.claimed, self._deadline, self._clock, workshop.plain_desk, known
        )
        self._limit_scope()
        thread = InThread(context)
        try:
            return await thread.run(handler.function, params, workshop.threads)
        except trio.Cancelled:
            if thread.abandon():
                get_logger().warning("a thread is given up", task=self.claimed.task)
            raise
        finally:
            self._has_begun = thread.has_begun

    async def _run_in_child(
        self, limits: Limits, params: Any, known: tuple[str, ...], workshop: Workshop
    ) -> End:
        assert workshop.isolator is not None, "a worker with isolated handlers has one"
        self._limit_scope()
        child = InChild(self.claimed, workshop.desk, known, lambda: self.is_over)
        order = child.order(limits, params, self._deadline - self._clock(), GRACE_S)
        try:
            return await workshop.isolator.call(order, child)
        finally:
            self._has_begun = child.has_begun

    def _limit_scope(self) -> None:
        scope, cut_at = self._scope, self._cut_at
        assert scope is not None
        if scope.deadline != cut_at:  # Of one batch they are often the same: setting it is dear.
            scope.deadline = cut_at

    async def _reveal(self, params: Any, provider: secrets.Provider) -> tuple[Any, tuple[str, ...]]:
        find = partial(provider, self.claimed.tenant_id)
        self._has_begun = True  # Where secrets can't be had in time, the attempt has failed.
        self._limit_scope()
        return await trio.to_thread.run_sync(secrets.resolve, params, find, abandon_on_cancel=True)


def _is_cancellation(error: BaseException) -> bool:
    """Whether somebody cancels us. A `Cancelled` that the handler kept from elsewhere is but an error."""
    if trio.current_effective_deadline() != -math.inf:
        return False
    group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
    return group.subgroup(trio.Cancelled) is not None


def _failed(error: BaseException, known: tuple[str, ...]) -> End:
    if isinstance(error, Retryable):
        return End(Outcome.RETRYABLE, *told(error, known), retry_after_ms=error.after_ms)
    return End(Outcome.FATAL if isinstance(error, Fatal) else Outcome.FAILED, *told(error, known))
