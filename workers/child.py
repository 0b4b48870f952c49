"""The child: a forked process that runs one attempt of one handler, tells its end, and is gone.

It is confined before any of the handler's code runs. What only the worker can do (`ctx.progress` and its
like) it asks for over its channel and waits for the answer. SIGTERM asks it to stop: `ctx.cancelled`
becomes true, and a handler under trio is cancelled. It never returns to the code that forked it, and it
leaves without Python's farewells (`atexit`): those belong to the fork server that it was copied from.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.execution import Claimed
from shardwheel.handler import Fatal, Handler, Retryable, Superseded, registry
from shardwheel.isolation import Limits
from shardwheel.workers.confine import raise_memory_limit
from shardwheel.workers.context import PlainContext
from shardwheel.workers.ending import encode_output, told
from shardwheel.workers.frames import Answer, Call, Finished, Order, Started, encode, receive

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


_ERRORS: dict[str, type[Exception]] = {"Superseded": Superseded, "UnavailableError": UnavailableError}


class Line:
    """The way from the child to its worker: one call at a time, each answered."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._one_at_a_time = threading.Lock()

    def call(self, method: str, *arguments: Any) -> Any:
        packet = encode(Call(method, list(arguments)))
        with self._one_at_a_time:
            self._channel.sendall(packet)
            answer = receive(self._channel)
        if not isinstance(answer, Answer):
            os._exit(1)  # The worker is gone, and with it the attempt.
        if answer.error_class:
            raise _ERRORS.get(answer.error_class, UsageError)(answer.message)
        return answer.value

    def tell(self, frame: Started | Finished) -> None:
        with self._one_at_a_time:
            self._channel.sendall(encode(frame))


class ChildDesk:
    """The worker's desk for a plain handler in a child (`context.PlainDesk`)."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def progress(self, claimed: Claimed, percent: float, note: str) -> None:
        self._line.call("progress", percent, note)

    def log(self, claimed: Claimed, level: str, text: str) -> None:
        self._line.call("log", level, text)

    def checkpoint(self, claimed: Claimed, data: bytes) -> None:
        self._line.call("checkpoint", data)

    def load_checkpoint(self, claimed: Claimed) -> bytes:
        data: bytes = self._line.call("load_checkpoint")
        return data

    def load_inputs(self, claimed: Claimed) -> bytes:
        data: bytes = self._line.call("load_inputs")
        return data


def live(order: Order, channel: socket.socket, confine: Callable[[], None]) -> NoReturn:
    """Run the attempt in this process, confined, and end the process."""
    line = Line(channel)
    line.tell(Started(os.getpid()))
    _speak_up()
    finished = _confined(confine) or _attempt(order, line)
    sys.stdout.flush()
    sys.stderr.flush()
    line.tell(finished)
    os._exit(0)


def _speak_up() -> None:
    """A process that is killed tells nothing more: so lines go out as they end, and a fatal signal leaves the
    lines of code that it met."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)


def _confined(confine: Callable[[], None]) -> Finished | None:
    try:
        confine()
    except OSError as error:
        text = f"this process could not be confined, so its handler was not called: {error}"
        return Finished("failed", "IsolationFailed", text, told(error).traceback)
    return None


def _attempt(order: Order, line: Line) -> Finished:
    try:
        return _perform(order, line)
    except MemoryError as error:
        raise_memory_limit()
        return _over(error, "MemoryLimitExceeded", f"it wanted more than memory_mb={order.limits.memory_mb}")
    except BaseException as error:
        return _failure(error, order.limits)


def _perform(order: Order, line: Line) -> Finished:
    claimed = order.claimed
    handler = registry.get(claimed.task)
    if handler is None:
        raise UsageError(f"the fork server's copy of the module has no handler for {claimed.task!r}")
    params = msgspec.json.decode(claimed.params)
    value = (_call_async if handler.is_async else _call)(handler, order, ChildDesk(line), params)
    return Finished("value", output=b"" if value is None else encode_output(value))


def _call(handler: Handler, order: Order, desk: ChildDesk, params: Any) -> Any:
    context = PlainContext(order.claimed, time.monotonic() + order.timeout_s, time.monotonic, desk)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: context.cancel())
    return handler.function(context, params)


def _call_async(handler: Handler, order: Order, desk: ChildDesk, params: Any) -> Any:
    # Not at the top: only a module with such a handler pays for trio, once, in the fork server.
    from shardwheel.workers.child_trio import call_async

    return call_async(handler, order, desk, params, STOP_SIGNALS)


def _failure(error: BaseException, limits: Limits) -> Finished:
    if isinstance(error, Retryable):
        return Finished("retryable", *told(error), retry_after_ms=error.after_ms)
    if isinstance(error, Fatal):
        return Finished("fatal", *told(error))
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return _over(error, "OpenFilesLimitExceeded", f"it wanted more than open_files={limits.open_files}")
    return Finished("failed", *told(error))


def _over(error: BaseException, error_class: str, message: str) -> Finished:
    return Finished("failed", error_class, message, told(error).traceback)
