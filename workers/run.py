"""One attempt: call the handler within its time, and turn whatever happens into its end.

An async handler runs under trio and is cancelled at its time-out or when it is asked to stop. A plain one
runs in a thread, which can't be stopped from outside: the attempt ends for us, the thread when it does.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import trio

from shardwheel.execution import Claimed
from shardwheel.handler import Fatal, Handler, Retryable
from shardwheel.wire import FORMAT_VERSION, Outcome, Result
from shardwheel.workers.context import Context

OUTPUT_LIMIT_BYTES = 10_240
TEXT_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000

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


class Running:
    """An attempt in hand. `stop` ends it as cancelled, `release` gives it back for another attempt; both
    also before it has begun. The cancel scope is its runner's, lent for as long as the handler runs."""

    __slots__ = (
        "_clock",
        "_deadline",
        "_ended_as",
        "_scope",
        "_started_at",
        "claimed",
        "context",
        "started_ms",
    )

    def __init__(
        self, claimed: Claimed, started_ms: int, started_at: float, clock: Callable[[], float]
    ) -> None:
        self.claimed = claimed
        self.started_ms = started_ms
        self._started_at = started_at
        self._clock = clock
        self._deadline = started_at + claimed.timeout_ms / 1000
        self._scope: trio.CancelScope | None = None
        self._ended_as: Outcome | None = None
        self.context = Context(claimed, self._deadline, clock)

    def stop(self) -> None:
        self._end(Outcome.CANCELLED)

    def release(self) -> None:
        self._end(Outcome.RELEASED)

    def _end(self, outcome: Outcome) -> None:
        self.context.cancelled = True
        self._ended_as = self._ended_as or outcome
        if self._scope is not None:
            self._scope.cancel()

    @property
    def is_unwanted(self) -> bool:
        """It was stopped or released: if it has not begun, it need not."""
        return self._ended_as is not None

    async def call(self, handler: Handler, threads: trio.CapacityLimiter, scope: trio.CancelScope) -> End:
        """Call the handler within the scope, and never raise what it raised. Whoever entered the scope asks
        `cut_off` when it was cancelled."""
        if scope.deadline != self._deadline:  # Of one batch they are often the same: setting it is dear.
            scope.deadline = self._deadline
        self._scope = scope
        try:
            return await self._call(handler, threads)
        finally:
            self._scope = None

    def cut_off(self) -> End:
        """The end of an attempt whose handler was not let finish."""
        if self._ended_as is not None:
            return End(self._ended_as)
        late = f"it took longer than {self.claimed.timeout_ms / 1000:g} s"
        return End(Outcome.TIMED_OUT, "TimeoutError", late)

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

    async def _call(self, handler: Handler, threads: trio.CapacityLimiter) -> End:
        try:
            params = _decode_params(self.claimed.params)
            if handler.is_async:
                value = await handler.function(self.context, params)
            else:
                value = await trio.to_thread.run_sync(
                    handler.function, self.context, params, abandon_on_cancel=True, limiter=threads
                )
            return _SUCCESS if value is None else End(Outcome.SUCCEEDED, output=_encode(value))
        except trio.Cancelled:
            raise
        except Retryable as error:
            after_ms = -1 if error.after_s is None else round(error.after_s * 1000)
            return _failure(Outcome.RETRYABLE, error)._replace(retry_after_ms=after_ms)
        except Fatal as error:
            return _failure(Outcome.FATAL, error)
        except Exception as error:
            return _failure(Outcome.FAILED, error)


def _encode(value: Any) -> bytes:
    output = msgspec.json.encode(value)
    if len(output) > OUTPUT_LIMIT_BYTES:
        raise Fatal(
            f"its output has {len(output)} bytes; return at most {OUTPUT_LIMIT_BYTES}, or a reference"
        )
    return output


def _failure(outcome: Outcome, error: BaseException) -> End:
    trace = "".join(traceback.format_exception(error))
    return End(
        outcome,
        type(error).__name__[:200],
        str(error).replace("\0", "")[:TEXT_LIMIT],
        trace.replace("\0", "")[-TRACEBACK_LIMIT:],
    )
