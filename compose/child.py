"""One child process: what to start (`Child`), and one life of it from start to end (`Life`).

Nothing here restarts anything, and nothing knows what a child is for; see supervisor.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import trio

from shardwheel.compose import process

PROBE_EVERY_S = 0.1
# A log larger than this moves aside when its child is started: logs stay bounded without a daemon.
LARGEST_LOG_BYTES = 8 * 1024 * 1024
LARGEST_QUOTE_BYTES = 16 * 1024


@dataclass(frozen=True, kw_only=True)
class Child:
    """One process to keep alive. `ready` says whether it serves by now; it is asked again and again."""

    role: str
    id: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log_path: Path
    ready: Callable[[], Awaitable[bool]]
    folder: Path = Path("/")
    address: str = ""
    stop_signal: signal.Signals = signal.SIGTERM
    stop_limit_s: float = 15.0
    ready_limit_s: float = 300.0


class Life:
    """One process of a child. The constructor starts it, and raises OSError when that can't be done."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._ready_at_s: float | None = None
        self._failure = ""
        self._log_starts_at = _make_room(child.log_path)
        self._process = process.spawn(child.argv, child.environment, child.log_path, child.folder)
        self.pid = self._process.pid

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @property
    def served_s(self) -> float | None:
        """For how long the child has served; None when it was never ready."""
        return None if self._ready_at_s is None else trio.current_time() - self._ready_at_s

    @property
    def ending(self) -> str:
        """Why the life is over, to be read after the child's name."""
        code = self._process.returncode
        if self._failure:
            return self._failure
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def crashed(self) -> bool:
        """It was killed by a signal: not its own decision, so it may go better the next time."""
        code = self._process.returncode
        return not self._failure and code is not None and code < 0

    def written(self) -> str:
        """The end of what it wrote to its log, earlier lives left out."""
        try:
            with self._child.log_path.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_starts_at, end - LARGEST_QUOTE_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    async def became_ready(self) -> bool:
        """True once the child says that it serves; false after its time limit, and then it is killed."""
        with trio.move_on_after(self._child.ready_limit_s):
            while not await self._child.ready():
                await trio.sleep(PROBE_EVERY_S)
            self._ready_at_s = trio.current_time()
            return True
        self._failure = f"did not serve within {self._child.ready_limit_s:g} s"
        self._process.kill()
        return False

    async def wait(self) -> None:
        """Until the process has ended and is reaped."""
        if self.is_over:
            return
        # Not a thread in waitpid: it could not be cancelled.
        fd = os.pidfd_open(self.pid)
        try:
            await trio.lowlevel.wait_readable(fd)
        finally:
            os.close(fd)
        self._process.wait()

    async def stop(self) -> None:
        """Ask it to end, wait for its time limit, then kill it and what descends from it."""
        self._process.send_signal(self._child.stop_signal)
        with trio.move_on_after(self._child.stop_limit_s):
            await self.wait()
        if not self.is_over:
            process.kill_tree(self.pid)
            await self.wait()


def _make_room(log_path: Path) -> int:
    """Move a large log aside; return where the next life's lines will begin."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    size = log_path.stat().st_size if log_path.exists() else 0
    if size <= LARGEST_LOG_BYTES:
        return size
    log_path.replace(log_path.with_name(f"{log_path.name}.1"))
    return 0
