"""One attempt of a handler, run to its end at once, in virtual time.

An async handler runs under trio on a clock that jumps over every sleep: how long it slept is how long it
took. A plain one is called right here, without a thread, and takes no time; so does an isolated one, without
its child process and its limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import trio

from shardwheel.execution import Claimed, LogLine
from shardwheel.handler import Handler, Registry
from shardwheel.wire import Result
from shardwheel.workers import secrets
from shardwheel.workers.context import PlainContext
from shardwheel.workers.run import Running, Workshop

WORKER = "testing"


class Attempt(NamedTuple):
    """What a handler was called with (secrets as references), and how that ended.

    `outcome`: succeeded, failed or timed_out; running while the clock has not come to its end. `error`: what
    it raised, as text."""

    task: str
    params: dict[str, Any]
    attempt: int
    outcome: str
    output: Any
    error: str | None
    scheduled_at: datetime
    started_at: datetime
    ended_at: datetime
    job_id: str
    execution_id: str


class MemoryDesk:
    """Where plain handlers leave word (`workers.context.PlainDesk`), kept by execution."""

    def __init__(self, load_inputs: Callable[[bytes], bytes]) -> None:
        self.now_ms: Callable[[], int] = lambda: 0
        self.progresses: dict[bytes, dict[str, Any]] = {}
        self.lines: dict[bytes, list[LogLine]] = {}
        self._checkpoints: dict[bytes, bytes] = {}
        self._load_inputs = load_inputs

    def progress(self, claimed: Claimed, percent: float, note: str) -> None:
        self.progresses[claimed.execution_id] = {"percent": percent, "note": note}

    def log(self, claimed: Claimed, level: str, text: str) -> None:
        lines = self.lines.setdefault(claimed.execution_id, [])
        number = 1 + sum(line.attempt == claimed.attempt for line in lines)
        lines.append(LogLine(claimed.attempt, number, self.now_ms(), level, text))

    def checkpoint(self, claimed: Claimed, data: bytes) -> None:
        self._checkpoints[claimed.execution_id] = data

    def load_checkpoint(self, claimed: Claimed) -> bytes:
        return self._checkpoints.get(claimed.execution_id, b"null")

    def load_inputs(self, claimed: Claimed) -> bytes:
        return self._load_inputs(claimed.execution_id)


class AwaitedDesk:
    """The same desk for async handlers."""

    def __init__(self, desk: MemoryDesk) -> None:
        self._desk = desk
        self.progress = desk.progress
        self.log = desk.log

    async def checkpoint(self, claimed: Claimed, data: bytes) -> None:
        self._desk.checkpoint(claimed, data)

    async def load_checkpoint(self, claimed: Claimed) -> bytes:
        return self._desk.load_checkpoint(claimed)

    async def load_inputs(self, claimed: Claimed) -> bytes:
        return self._desk.load_inputs(claimed)


class Bench:
    """Runs attempts, each to its end."""

    def __init__(self, registry: Registry, desk: MemoryDesk, known: Mapping[str, str]) -> None:
        self._registry = registry
        self._desk = desk
        self._known = known

    async def run(self, claimed: Claimed, now_ms: int) -> Result:
        """Call the handler as a worker does; what a worker would report."""
        handler = self._registry.get(claimed.task)
        assert handler is not None, "the claim asks for tasks that have a handler"
        claimed = claimed._replace(params=self._revealed(claimed.params))
        began_at = trio.current_time()
        self._desk.now_ms = lambda: now_ms + round((trio.current_time() - began_at) * 1000)
        running = Running(claimed, now_ms, began_at, trio.current_time)
        with trio.CancelScope() as scope:
            end = await running.call(self._inline(handler, claimed), self._workshop(), scope)
        if scope.cancelled_caught:
            end = running.cut_off()
        return running.result(WORKER, end)

    def _workshop(self) -> Workshop:
        nowhere = secrets.EnvironmentSecrets(environ={})
        return Workshop(trio.CapacityLimiter(1), AwaitedDesk(self._desk), self._desk, nowhere)

    def _inline(self, handler: Handler, claimed: Claimed) -> Handler:
        """As an async handler of this process, whatever it is."""
        if handler.is_async:
            return handler._replace(limits=None)
        deadline = trio.current_time() + claimed.timeout_ms / 1000

        async def call(ctx: Any, params: Any) -> Any:
            return handler.function(PlainContext(claimed, deadline, trio.current_time, self._desk), params)

        return handler._replace(function=call, is_async=True, limits=None)

    def _revealed(self, params: bytes) -> bytes:
        if secrets.MARK not in params:
            return params
        revealed, _ = secrets.resolve(msgspec.json.decode(params), self._known.get)
        return msgspec.json.encode(revealed)
