"""`shardctl` many times over without its second of imports: a process that has them forks for every command.

    python -m tests.forked SOCKET          # the process; `bin_with_shardctl` makes the command that asks it

A command runs in a process of its own, with the caller's folder, environment and files, as it would anywhere.
What runs on (services, `dev`) is started as a process of the machine: it must have a pid that signals reach.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ASKING = """#!{python} -IS
import json, os, socket, sys
words = sys.argv[1:]
runs_on = {{"api", "worker", "results", "shard", "alerts", "dev"}}
verbs = [word for word in words[1:2] if not word.startswith("-")]
if words and words[0] in runs_on and not verbs:
    os.execv({python!r}, [{python!r}, "-m", "shardwheel.cli", *words])
asking = socket.socket(socket.AF_UNIX)
asking.connect({path!r})
call = json.dumps({{"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
socket.send_fds(asking, [len(call).to_bytes(4, "big")], [0, 1, 2])
asking.sendall(call)
sys.exit(asking.recv(1)[0])
"""


def bin_with_shardctl(folder: Path, path: Path) -> Path:
    """A folder for PATH with a `shardctl` that asks the process at this socket."""
    folder.mkdir()
    command = folder / "shardctl"
    command.write_text(ASKING.format(python=sys.executable, path=str(path)))
    command.chmod(0o755)
    return folder


def serve(path: str) -> None:
    from shardwheel.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    door.listen()
    while True:
        asking, _ = door.accept()
        if os.fork() == 0:
            door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(asking, main)
        asking.close()


def _answer(asking: socket.socket, main: Callable[[], None]) -> None:
    length, files, _, _ = socket.recv_fds(asking, 4, 3)
    text = b""
    while len(text) < int.from_bytes(length, "big"):
        text += asking.recv(1 << 16)
    call = json.loads(text)
    for number, file in enumerate(files):
        os.dup2(file, number)
    # A stream remembers what kind of file it was opened on.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until the end
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 - the same
    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = ["shardctl", *call["words"]]
    asking.sendall(bytes([_ending(main)]))
    os._exit(0)


def _ending(main: Callable[[], None]) -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
