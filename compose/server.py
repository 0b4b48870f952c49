"""What the three embedded servers share: a data folder, a port, a process.

A server is used in one of two ways. A supervisor asks `prepare()`, spawns `launch()` and polls `ready()`.
A test calls `start()`, `stop()`, `kill()`, `freeze()`, `thaw()`. Both see the same data on the same port:

    data_dir/data        what the server keeps; appears by a rename, so it is whole or absent
    data_dir/port        the port it was given the first time
    data_dir/version     which version wrote the data
    data_dir/server.log

It never deletes data, and never changes data of another version.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from shardwheel.compose import ports, process
from shardwheel.compose.remedy import last_words, remedy_of
from shardwheel.errors import ShardwheelError, UsageError

_TRAMPOLINE = Path(__file__).resolve().parent / "trampoline.py"
# Servers read settings from their environment (ETCD_*, JAVA_TOOL_OPTIONS, PG*): they get only what they need.
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
_TAIL_LINES = 25


class StartError(ShardwheelError):
    """A server did not come up; the message ends with the tail of its log."""


@dataclass(frozen=True)
class Launch:
    """How to spawn a server: with `process.spawn`, in the process that is to be its parent."""

    argv: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True)
class RunAs:
    """Who a child is to be: the caller, unless root runs what refuses root; `reach` opens closed folders."""

    uid: int | None = None
    gid: int | None = None
    reach: bool = False


def supported_platform() -> None:
    if sys.platform != "linux":
        raise UsageError(
            f"the embedded servers run on Linux only, this is {sys.platform}: point SHARDWHEEL_POSTGRES_DSN, "
            "SHARDWHEEL_ETCD_ENDPOINTS and SHARDWHEEL_KAFKA_BOOTSTRAP at servers of your own"
        )


def tail(log_path: Path, lines: int = _TAIL_LINES) -> str:
    try:
        return "\n".join(log_path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def tied(argv: list[str], death_signal: signal.Signals = signal.SIGKILL, who: RunAs = RunAs()) -> list[str]:
    """The same command, as a child that dies with this process, and as the right user."""
    return [
        sys.executable,
        "-I",
        "-S",
        str(_TRAMPOLINE),
        str(os.getpid()),
        str(int(death_signal)),
        "-" if who.uid is None else f"{who.uid}:{who.gid}",
        "reach" if who.reach else "-",
        "--",
        *argv,
    ]


class Server(ABC):
    """One embedded server. Not safe for use by two threads at once."""

    name: ClassVar[str]
    data_version: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, data_dir: Path, port: int = 0) -> None:
        supported_platform()
        self.data_dir = data_dir.absolute()
        self.log_path = self.data_dir / "server.log"
        self._asked_port = port
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def format(self, folder: Path) -> None:
        """Fill an empty folder with the data of a server that holds nothing yet."""

    @abstractmethod
    def command(self) -> list[str]:
        """The server's own argv."""

    @abstractmethod
    def ready(self) -> bool:
        """Does it answer? Takes two seconds at most; never raises for a server that is away."""

    @property
    def data(self) -> Path:
        return self.data_dir / "data"

    @property
    def port(self) -> int:
        if self._asked_port:
            return self._asked_port
        return int((self.data_dir / "port").read_text())

    @property
    def address(self) -> str:
        return f"{ports.LOOPBACK}:{self.port}"

    def run_as(self) -> RunAs:
        return RunAs()

    def prepare(self) -> None:
        """Make the data folder unless it is there, refuse that of another version, settle on a port."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._check_version()
            if not self.data.exists():
                self._make_data()
            port_file = self.data_dir / "port"
            if not self._asked_port and not port_file.exists():
                _write_whole(port_file, f"{ports.choose()}\n")
        except OSError as error:
            raise UsageError(f"{self.name}: {self.data_dir}: {error.strerror}; {remedy_of(error)}") from error

    def found_version(self) -> str | None:
        """Which version wrote the data that is there, if any is."""
        marker = self.data_dir / "version"
        return marker.read_text().strip() if marker.exists() else None

    def _check_version(self) -> None:
        found = self.found_version()
        if found is not None and found != self.data_version:
            raise UsageError(
                f"{self.data_dir} holds data of {self.name} {found}, this is version {self.data_version}: "
                "move the folder away, choose another with --data, or use the release that wrote it"
            )

    def _make_data(self) -> None:
        fresh = self.data_dir / "data.new"
        if fresh.exists():
            shutil.rmtree(fresh)
        fresh.mkdir(mode=0o700)
        self.format(fresh)
        _write_whole(self.data_dir / "version", f"{self.data_version}\n")
        fresh.rename(self.data)

    def launch(self) -> Launch:
        """How to spawn the prepared server as a child of this process."""
        return Launch(tuple(self.tied(self.command())), self.environment())

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def tied(self, argv: list[str]) -> list[str]:
        return tied(argv, self.death_signal, self.run_as())

    def run_tool(self, what: str, argv: list[str]) -> None:
        """Run a program of the server to its end; what it writes goes to the log, its gist into the error."""
        done = subprocess.run(
            self.tied(argv),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
        )
        with self.log_path.open("ab") as log:
            log.write(done.stdout)
        if done.returncode != 0:
            gist = last_words(done.stdout.decode(errors="replace"))
            raise StartError(f"{self.name}: {what} failed; {gist}; its log: {self.log_path}")

    def check_port(self) -> None:
        if not ports.is_free(self.port):
            remedy = (
                "pass another one" if self._asked_port else f"delete {self.data_dir / 'port'} to get another"
            )
            raise UsageError(f"{self.name}: port {self.port} is taken: stop what listens there, or {remedy}")

    # What tests use from here on.

    @property
    def pid(self) -> int:
        # Only of a process that was not reaped yet: its number may already be another's.
        if self._process is None or not self.running:
            raise UsageError(f"{self.name} does not run, or was not started by this process")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, limit_s: float = 120) -> None:
        """Return when it answers; on the same data and port as before, if there was a before."""
        if self.running:
            raise UsageError(f"{self.name} runs already")
        self.prepare()
        self.check_port()
        launch = self.launch()
        self._process = process.spawn(launch.argv, launch.environment, self.log_path)
        try:
            up = process.await_true(lambda: not self.running or self.ready(), limit_s, pause_s=0.05)
            if not self.running or not up:
                fate = f"is not ready after {limit_s:g} s" if self.running else "ended while starting"
                raise StartError(f"{self.name} {fate}; its log {self.log_path} ends:\n{tail(self.log_path)}")
        except BaseException:
            self.kill()
            raise

    def stop(self, limit_s: float = 60) -> None:
        """Ask it to end in good order; kill it when it has not within the limit. A no-op when it is down."""
        if self._process is None or not self.running:
            return
        process.thaw_tree(self._process.pid)
        process.signal_quietly(self._process.pid, self.stop_signal)
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """kill -9, the whole family, frozen or not. A no-op when it is down."""
        if self._process is not None and self.running:
            process.kill_tree(self._process.pid)
            self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP for the whole family: it holds its connections and answers nothing."""
        process.freeze_tree(self.pid)

    def thaw(self) -> None:
        process.thaw_tree(self.pid)


def _write_whole(path: Path, text: str) -> None:
    """A reader, and the next start after a crash, sees the whole text or no file."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
