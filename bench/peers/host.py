"""The process that runs a peer's jobs, and the driver's line to it: one call, one answer.

It leads a process group of its own, so that whatever the peer starts ends with it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from shardwheel.bench.peers.peer import Place, peer_class
from shardwheel.bench.peers.work import Plan

_STOP_S = 20.0


class Host:
    """A started peer."""

    def __init__(self, name: str, place: Place, plans: Sequence[Plan], limit_s: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._line, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_live, args=(name, place, list(plans), theirs))
        self._process.start()
        theirs.close()
        try:
            self.pids: list[int] = self._answer(limit_s)
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def call(self, method: str, *arguments: Any, limit_s: float) -> Any:
        self._line.send((method, arguments))
        return self._answer(limit_s)

    def _answer(self, limit_s: float) -> Any:
        if not self._line.poll(max(0.0, limit_s)):
            raise TimeoutError
        try:
            is_good, answer = self._line.recv()
        except EOFError:
            raise RuntimeError("the peer's process has ended") from None
        if not is_good:
            raise RuntimeError(answer)
        return answer

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """By its own way down first, then by force, with all that it started."""
        if how == signal.SIGTERM and self._process.is_alive():
            with contextlib.suppress(OSError):
                self._line.send(("close", ()))
            self._process.join(_STOP_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self._line.close()


def _live(name: str, place: Place, plans: list[Plan], line: Connection) -> None:
    os.setsid()
    try:
        peer = peer_class(name)(place)
        peer.serve(plans)
        line.send((True, peer.pids()))
    except Exception as error:
        line.send((False, f"{type(error).__name__}: {error}"))
        return
    while True:
        method, arguments = line.recv()
        try:
            answer = getattr(peer, method)(*arguments)
        except Exception as error:
            line.send((False, f"{type(error).__name__}: {error}"))
            continue
        if method == "close":
            # Some peers keep threads that wait for ever.
            os._exit(0)
        line.send((True, answer))
