"""What a handler is given beside its params: who it is, how long it has, whether it should stop, and a desk
to leave word at: progress, log lines, checkpoints.

Two contexts with the same words. An async handler gets `Context`: what has to wait is awaited. A plain one,
in a thread or in a child process, gets `PlainContext`: what has to wait blocks.

    async def build(ctx, params):                       def build(ctx, params):
        done = await ctx.load_checkpoint() or 0             done = ctx.load_checkpoint() or 0
        ctx.progress(50, "half of it")                      ctx.progress(50, "half of it")
        await ctx.checkpoint(done + 1)                      ctx.checkpoint(done + 1)
        ctx.log.info("built", pages=done)                   ctx.log.info("built", pages=done)

The desk is the one seam between a handler and its worker: five operations, each about one claimed attempt,
with plain arguments (numbers, texts, bytes) that can go through a pipe.

    progress(claimed, percent, note)     log(claimed, level, text)            never wait
    checkpoint(claimed, data)            load_checkpoint(claimed) → data      durable when they return
    load_inputs(claimed) → data          what the parents of a DAG's task left for it

`Desk` is the worker's own (`notes.Notes`); `PlainDesk` is the same for whoever may block: threads reach the
worker's through `notes.ThreadDesk`, a child process through a pipe whose other end calls `perform` with the
operation's name and arguments. All values are checked by the desk, so that no way around a check exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import msgspec

from shardwheel.errors import UsageError
from shardwheel.execution import Claimed
from shardwheel.workers.secrets import blotted
from shardwheel.workers.values import encode_json

OPERATIONS = ("progress", "log", "checkpoint", "load_checkpoint", "load_inputs")
LEVELS = ("debug", "info", "warning", "error")
CHECKPOINT_LIMIT_BYTES = 65_536
_decode = msgspec.json.decode


class Desk(Protocol):
    """Where the attempts of one worker leave word. `progress` and `log` may be called from any thread."""

    def progress(self, claimed: Claimed, percent: float, note: str) -> None: ...

    def log(self, claimed: Claimed, level: str, text: str) -> None: ...

    async def checkpoint(self, claimed: Claimed, data: bytes) -> None: ...

    async def load_checkpoint(self, claimed: Claimed) -> bytes:
        """As it was stored last, by whichever attempt; b"null" if there is none."""

    async def load_inputs(self, claimed: Claimed) -> bytes:
        """{"outputs": {parent: output}, "skipped_parents": [parent]}, of a DAG's task."""


class PlainDesk(Protocol):
    """The same for a handler that may block."""

    def progress(self, claimed: Claimed, percent: float, note: str) -> None: ...

    def log(self, claimed: Claimed, level: str, text: str) -> None: ...

    def checkpoint(self, claimed: Claimed, data: bytes) -> None: ...

    def load_checkpoint(self, claimed: Claimed) -> bytes: ...

    def load_inputs(self, claimed: Claimed) -> bytes: ...


AnyDesk = TypeVar("AnyDesk", Desk, PlainDesk)


async def perform(desk: Desk, claimed: Claimed, operation: str, arguments: Sequence[Any]) -> bytes | None:
    """Do at the desk what somebody asked for through a pipe. `UsageError` for what is no operation."""
    if operation not in OPERATIONS:
        raise UsageError(f"operation: {operation!r} is not one of {', '.join(OPERATIONS)}", field="operation")
    answer = getattr(desk, operation)(claimed, *arguments)
    if operation in ("progress", "log"):
        return None
    data: bytes | None = await answer
    return data


class Log:
    """`ctx.log`: `ctx.log("sent", to=3)`, or by level: `ctx.log.warning("slow", seconds=4)`."""

    __slots__ = ("_say",)

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say

    def __call__(self, message: str, **fields: Any) -> None:
        self._say("info", _line(message, fields))

    info = __call__

    def debug(self, message: str, **fields: Any) -> None:
        self._say("debug", _line(message, fields))

    def warning(self, message: str, **fields: Any) -> None:
        self._say("warning", _line(message, fields))

    def error(self, message: str, **fields: Any) -> None:
        self._say("error", _line(message, fields))


def _line(message: str, fields: dict[str, Any]) -> str:
    return " ".join([str(message), *(f"{name}={value}" for name, value in fields.items())])


class BaseContext(Generic[AnyDesk]):
    """`fencing_token` is the attempt: a handler may use it to protect its own effects, since a stalled
    worker may wake after its lease and overlap with the next attempt for a moment.

    All that can be is read from the claim when it is asked for: a short run asks for little."""

    __slots__ = ("_claimed", "_clock", "_deadline", "_desk", "_is_cancelled", "_is_over", "_secrets", "knows")

    def __init__(
        self,
        claimed: Claimed,
        deadline: float,
        clock: Callable[[], float],
        desk: AnyDesk,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._claimed = claimed
        self._deadline = deadline
        # Not trio.current_time: a plain handler asks from a thread.
        self._clock = clock
        self._desk: AnyDesk = desk
        self._is_cancelled = self._is_over = False
        # The handler has looked, and was told to stop.
        self.knows = False
        self._secrets = secrets

    @property
    def task(self) -> str:
        return self._claimed.task

    @property
    def attempt(self) -> int:
        return self._claimed.attempt

    @property
    def first_attempt(self) -> bool:
        return self._claimed.attempt == 1

    @property
    def fencing_token(self) -> int:
        return self._claimed.attempt

    @property
    def scheduled_ms(self) -> int:
        return self._claimed.scheduled_ms

    @property
    def execution_id(self) -> str:
        return str(UUID(bytes=self._claimed.execution_id))

    @property
    def job_id(self) -> str:
        return str(UUID(bytes=self._claimed.job_id))

    # --- time and the wish to stop -------------------------------------------------------------------

    @property
    def deadline(self) -> datetime:
        """When the time-out ends this attempt, by this machine's clock, in UTC."""
        return datetime.now(UTC) + timedelta(seconds=self._deadline - self._clock())

    @property
    def seconds_left(self) -> float:
        """Until the time-out ends this attempt."""
        return max(0.0, self._deadline - self._clock())

    @property
    def cancelled(self) -> bool:
        """Stop now: somebody asked for it, the worker is leaving, or the time is over. What a handler returns
        after it was told so does not count."""
        if self._is_cancelled or self._clock() >= self._deadline:
            self.knows = True
            return True
        return False

    def cancel(self) -> None:
        """Said by whoever runs the handler."""
        self._is_cancelled = True

    def end(self) -> None:
        """The attempt is over for its worker: a thread that goes on has nobody to leave word with."""
        self._is_cancelled = self._is_over = True

    # --- trace ---------------------------------------------------------------------------------------

    @property
    def trace(self) -> str:
        """W3C traceparent, to be sent along with requests: of whatever caused this execution, else one that
        the execution's id makes (the same for all its attempts)."""
        name = self._claimed.execution_id.hex()
        return self._claimed.trace or f"00-{name}-{name[16:]}-01"

    @property
    def trace_id(self) -> str:
        return self.trace.split("-")[1]

    # --- word for others -----------------------------------------------------------------------------

    def progress(self, percent: float, note: str = "") -> None:
        """How far it is, 0 to 100: shown with the execution. Written once in a while; the last one counts."""
        if not self._is_over:
            self._desk.progress(self._claimed, percent, blotted(self._secrets, note))

    @property
    def log(self) -> Log:
        """Kept with the execution, the last 64 KiB of it."""
        return Log(self._say)

    def _say(self, level: str, text: str) -> None:
        if not self._is_over:
            self._desk.log(self._claimed, level, blotted(self._secrets, text))


class Context(BaseContext[Desk]):
    """For async handlers."""

    __slots__ = ()

    async def checkpoint(self, value: Any) -> None:
        """Store a JSON value of at most 64 KiB for a later attempt to go on from; durable on return."""
        await self._desk.checkpoint(self._claimed, _encode(value))

    async def load_checkpoint(self) -> Any:
        """What was stored last, by this or an earlier attempt; None if nothing was."""
        return _decode(await self._desk.load_checkpoint(self._claimed))

    async def inputs(self) -> dict[str, Any]:
        """Of a DAG's task, its parents' outputs by their keys: of one that fans out the list of its items',
        in order; None of one that was skipped. Read when it is asked for. Of any other job, nothing."""
        outputs: dict[str, Any] = _decode(await self._desk.load_inputs(self._claimed))["outputs"]
        return outputs

    async def skipped_parents(self) -> list[str]:
        """The keys of parents that were skipped."""
        keys: list[str] = _decode(await self._desk.load_inputs(self._claimed))["skipped_parents"]
        return keys


class PlainContext(BaseContext[PlainDesk]):
    """For plain handlers, in a thread or in a child process."""

    __slots__ = ()

    def checkpoint(self, value: Any) -> None:
        """Store a JSON value of at most 64 KiB for a later attempt to go on from; durable on return."""
        self._desk.checkpoint(self._claimed, _encode(value))

    def load_checkpoint(self) -> Any:
        """What was stored last, by this or an earlier attempt; None if nothing was."""
        return _decode(self._desk.load_checkpoint(self._claimed))

    def inputs(self) -> dict[str, Any]:
        """Of a DAG's task, its parents' outputs by their keys: of one that fans out the list of its items',
        in order; None of one that was skipped. Read when it is asked for. Of any other job, nothing."""
        outputs: dict[str, Any] = _decode(self._desk.load_inputs(self._claimed))["outputs"]
        return outputs

    def skipped_parents(self) -> list[str]:
        """The keys of parents that were skipped."""
        keys: list[str] = _decode(self._desk.load_inputs(self._claimed))["skipped_parents"]
        return keys


def _encode(value: Any) -> bytes:
    return encode_json("checkpoint", value, CHECKPOINT_LIMIT_BYTES)
