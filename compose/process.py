"""Processes as the kernel sees them: who descends from whom, who is stopped, who is gone.

Linux only (/proc). It exists because PostgreSQL puts every backend into a session of its own, so signalling
a process group does not reach them. It never signals a process that does not descend from the one named.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The kernel's death signal fires when the spawning *thread* ends. A worker thread of trio ends after ten idle
# seconds; this one lives as long as the process does, so anyone may spawn from anywhere.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def spawn(
    argv: Sequence[str], environment: Mapping[str, str], log_path: Path, folder: Path = Path("/")
) -> subprocess.Popen[bytes]:
    """Start a process in a folder, its output appended to its log. There is no other way: see `_spawner`."""
    with log_path.open("ab") as log:
        return _spawner.submit(
            subprocess.Popen,
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        ).result()


def _stat(path: Path) -> tuple[str, int] | None:
    """State letter and parent of a process or thread; None when it is gone."""
    try:
        state, parent = path.read_text().rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return state, int(parent)


def alive(pid: int) -> bool:
    """A zombie counts as gone: it holds nothing any more, and it may be for another to reap it."""
    stat = _stat(Path(f"/proc/{pid}/stat"))
    return stat is not None and stat[0] not in "ZX"


def descendants(pid: int) -> list[int]:
    """The children of a process, theirs, and so on; parents before children."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _stat(folder / "stat")):
            children.setdefault(stat[1], []).append(int(folder.name))
    found = [pid]
    for ancestor in found:
        found.extend(children.get(ancestor, []))
    return found[1:]


def _stopped(pid: int) -> bool:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True
    states = [stat[0] for thread in threads if (stat := _stat(thread / "stat"))]
    return all(state in "TtZX" for state in states)


def signal_quietly(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def await_true(condition: Callable[[], bool], limit_s: float, pause_s: float = 0.02) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def _stop_forking(pid: int, limit_s: float) -> list[int]:
    """Stop a process, and only then ask who descends from it: nobody is missed."""
    signal_quietly(pid, signal.SIGSTOP)
    await_true(lambda: _stopped(pid), limit_s)
    return descendants(pid)


def freeze_tree(pid: int, limit_s: float = 30) -> None:
    family = _stop_forking(pid, limit_s)
    for member in family:
        signal_quietly(member, signal.SIGSTOP)
    await_true(lambda: all(_stopped(member) for member in family), limit_s)


def thaw_tree(pid: int) -> None:
    for member in [*descendants(pid), pid]:
        signal_quietly(member, signal.SIGCONT)


def kill_tree(pid: int, limit_s: float = 30) -> None:
    """kill -9 for the whole family; returns when all of it is gone (or a zombie)."""
    family = [pid, *_stop_forking(pid, limit_s)]
    for member in family:
        signal_quietly(member, signal.SIGKILL)
    await_true(lambda: not any(alive(member) for member in family), limit_s)
