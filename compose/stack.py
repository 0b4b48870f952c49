"""A stack's data folder, and how everybody else finds the stack that runs on it.

`DIR/stack.json` says what runs: the supervisor's pid and birth, every process, and the settings with which
any command reaches the stack (addresses and the secret, so it is readable by its owner only). It is
believed only while its supervisor lives; a recycled pid has another birth. `DIR/lock` keeps a second
supervisor out, and is let go by the kernel when the first one dies, however it dies.

    stack = running_stack(None)               # the default folder
    stack.settings["postgres_dsn"]            # a layer for `load_settings(stack=…)`
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from shardwheel.compose.remedy import remedy_of
from shardwheel.compose.state import Process
from shardwheel.errors import ConflictError, NotFoundError, UsageError


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """What stack.json holds. `births` names one life of each pid, the supervisor's included."""

    data: str
    pid: int
    births: dict[int, str]
    settings: dict[str, Any]
    processes: list[Process]

    @property
    def is_running(self) -> bool:
        return self._is_alive(self.pid)

    def alive(self) -> list[int]:
        """The pids of this stack's processes that live, be its supervisor alive or not."""
        return [pid for pid in self.births if self._is_alive(pid)]

    def _is_alive(self, pid: int) -> bool:
        return birth_of(pid) == self.births.get(pid) != ""


def default_folder() -> Path:
    """One stack a user, found from any directory. (Root's home is closed to the user who runs PostgreSQL.)"""
    if named := os.environ.get("XDG_DATA_HOME"):
        return Path(named) / "shardwheel" / "dev"
    if os.geteuid() == 0:
        return Path("/var/lib/shardwheel/dev")
    return Path.home() / ".local" / "share" / "shardwheel" / "dev"


def last_stack(folder: Path | None) -> Stack | None:
    """The stack that runs on this data folder (None: the default one), or ran there last."""
    path = (folder or default_folder()) / "stack.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Stack)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        # One that does not decode was left by another version; while that runs, it holds the lock.
        return None
    except PermissionError:
        raise UsageError(f"{path} may not be read: run this as the user who started `shardctl dev`") from None


def running_stack(folder: Path | None) -> Stack | None:
    """The stack that runs on this data folder (None: the default one), or None when none does."""
    stack = last_stack(folder)
    return stack if stack is not None and stack.is_running else None


def require_stack(folder: Path | None) -> Stack:
    """The running stack, or the one line that says how to start it."""
    stack = running_stack(folder)
    if stack is None:
        where = folder or default_folder()
        raise NotFoundError(
            f"no `shardctl dev` runs on {where}: start one with `shardctl dev --data {where}`"
        )
    return stack


def birth_of(pid: int) -> str:
    """Names one life of a pid: the machine's boot and the tick of its start. Empty: no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The command stands in parentheses and may hold anything: count from behind it. First is the state.
    state, *others = stat.rpartition(")")[2].split()
    if state in "ZX":
        return ""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{others[18]}"


def make_folder(folder: Path) -> Path:
    """The data folder, absolute, made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; {remedy_of(error)}", field="data") from error
    return folder.resolve()


@contextmanager
def sole_supervisor(folder: Path) -> Iterator[None]:
    """Hold the data folder's lock. Children never inherit it: the descriptor closes at exec."""
    try:
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{folder}/lock: {error.strerror}; {remedy_of(error)}", field="data") from error
    try:
        _lock(fd, folder)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, folder: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConflictError(
            f"another `shardctl dev` runs on {folder}: stop it with `shardctl dev stop --data {folder}`, "
            "or choose another folder with --data"
        ) from None


def write_stack(folder: Path, settings: dict[str, Any], processes: list[Process]) -> None:
    """Say that this process is the supervisor of these. OSError when the disk does not take it."""
    pids = [os.getpid(), *(process.pid for process in processes if process.pid is not None)]
    stack = Stack(
        data=str(folder),
        pid=os.getpid(),
        births={pid: birth_of(pid) for pid in pids},
        settings=settings,
        processes=processes,
    )
    _write_private(folder / "stack.json", msgspec.json.format(msgspec.json.encode(stack), indent=2))


def secret_of(folder: Path) -> str:
    """The stack's own secret: made once, so that tokens outlive a restart."""
    path = folder / "secret"
    try:
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(32).encode())
        return path.read_text()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; {remedy_of(error)}", field="data") from error


def write_token(folder: Path, token: str) -> Path:
    """Where people find the token that this start of the stack made."""
    path = folder / "token"
    try:
        _write_private(path, token.encode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; {remedy_of(error)}", field="data") from error
    return path


def _write_private(path: Path, content: bytes) -> None:
    """Put a file in place at once, for its owner only: a reader sees the old one or the new, never a half."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(content)
    fresh.replace(path)
