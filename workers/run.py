"""One attempt: call the handler within its time, and turn whatever happens into a result.

An async handler runs under trio and is cancelled at its time-out or when it is asked to stop. A plain one
runs in a thread, which can't be stopped from outside: the attempt ends for us, the thread when it does.
"""

from __future__ import annotations

import traceback
from typing import Any

import msgspec
import trio

from shardwheel.execution import Claimed
from shardwheel.handler import Fatal, Handler, Retryable
from shardwheel.wire import FORMAT_VERSION, Outcome, Result
from shardwheel.workers.context import Context

OUTPUT_LIMIT_BYTES = 10_240
TEXT_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000


class Running:
    """An attempt in hand. `stop` ends it as cancelled, `release` gives it back for another attempt."""

    def __init__(self, claimed: Claimed, started_ms: int) -> None:
        self.claimed = claimed
        self.started_ms = started_ms
        self._scope = trio.CancelScope()
        self._ended_as: Outcome | None = None
        self._deadline = trio.current_time() + claimed.timeout_ms / 1000
        self.context = Context(claimed, lambda: max(0.0, self._deadline - trio.current_time()))

    def stop(self) -> None:
        self._end(Outcome.CANCELLED)

    def release(self) -> None:
        self._end(Outcome.RELEASED)

    def _end(self, outcome: Outcome) -> None:
        self.context.cancelled = True
        self._ended_as = self._ended_as or outcome
        self._scope.cancel()

    async def run(self, handler: Handler, threads: trio.CapacityLimiter) -> dict[str, Any]:
        """The fields of the result. Never raises what the handler raised."""
        self._scope.deadline = self._deadline
        fields: dict[str, Any] = {}
        with self._scope:
            fields = await self._call(handler, threads)
        if not fields:
            outcome = self._ended_as or Outcome.TIMED_OUT
            late = f"it took longer than {self.claimed.timeout_ms / 1000:g} s"
            fields = {"outcome": outcome}
            if outcome is Outcome.TIMED_OUT:
                fields |= {"error_class": "TimeoutError", "message": late}
        return fields

    async def _call(self, handler: Handler, threads: trio.CapacityLimiter) -> dict[str, Any]:
        try:
            params = msgspec.json.decode(self.claimed.params)
            if handler.is_async:
                value = await handler.function(self.context, params)
            else:
                value = await trio.to_thread.run_sync(
                    handler.function, self.context, params, abandon_on_cancel=True, limiter=threads
                )
            return {"outcome": Outcome.SUCCEEDED, "output": _encode(value)}
        except trio.Cancelled:
            raise
        except Retryable as error:
            after_ms = -1 if error.after_s is None else round(error.after_s * 1000)
            return _failure(Outcome.RETRYABLE, error) | {"retry_after_ms": after_ms}
        except Fatal as error:
            return _failure(Outcome.FATAL, error)
        except Exception as error:
            return _failure(Outcome.FAILED, error)


def result_of(
    claimed: Claimed, worker: str, started_ms: int, ended_ms: int, fields: dict[str, Any]
) -> Result:
    return Result(
        version=FORMAT_VERSION,
        execution_id=claimed.execution_id,
        job_id=claimed.job_id,
        partition=claimed.partition,
        attempt=claimed.attempt,
        claim_token=claimed.claim_token,
        started_ms=started_ms,
        ended_ms=ended_ms,
        worker=worker,
        **fields,
    )


def _encode(value: Any) -> bytes:
    if value is None:
        return b""
    output = msgspec.json.encode(value)
    if len(output) > OUTPUT_LIMIT_BYTES:
        raise Fatal(
            f"its output has {len(output)} bytes; return at most {OUTPUT_LIMIT_BYTES}, or a reference"
        )
    return output


def _failure(outcome: Outcome, error: BaseException) -> dict[str, Any]:
    trace = "".join(traceback.format_exception(error))
    return {
        "outcome": outcome,
        "error_class": type(error).__name__[:200],
        "message": str(error).replace("\0", "")[:TEXT_LIMIT],
        "traceback": trace.replace("\0", "")[-TRACEBACK_LIMIT:],
    }
