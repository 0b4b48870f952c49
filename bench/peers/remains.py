"""What a row left running: found by a mark in the environment that all its processes inherit, and ended.

A process group is not enough: hosts and servers lead groups of their own, and a driver that was ended by
force ended nobody else.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

MARK: Final = "BENCH_ROW"
_END_S: Final = 10.0
_LOOK_S: Final = 0.05


def end_remains(mark: str) -> list[int]:
    """Kill whoever has this mark, again until there is nobody; who that was."""
    ended: list[int] = []
    deadline_s = time.monotonic() + _END_S
    while (left := marked(mark)) and time.monotonic() < deadline_s:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        ended += [pid for pid in left if pid not in ended]
        time.sleep(_LOOK_S)
    return ended


def marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if wanted in _words(path)]


def _words(environ: Path) -> list[bytes]:
    """None of a process that has ended meanwhile, or is somebody else's."""
    try:
        return environ.read_bytes().split(b"\0")
    except OSError:
        return []
