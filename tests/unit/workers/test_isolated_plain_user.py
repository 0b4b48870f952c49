"""Isolation by a worker that is not root. When the tests are, a fork server gives root up before it begins:
after a fork, not an exec, since the interpreter itself may lie where only root can read. All of it in a
process of its own, which has no threads."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shardwheel.execution import Claimed
from shardwheel.isolation import Limits
from shardwheel.workers import forkserver
from shardwheel.workers.frames import Ended, Order, Ready, Setup, channel_pair, encode, receive
from tests.unit.workers.isolated_rig import MODULE

ROOT = Path(__file__).parents[3]
NOBODY = 65534


def _start(theirs: socket.socket, ours: socket.socket) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            forkserver.main(theirs.fileno(), parent)
        finally:
            os._exit(0)
    return pid


def _ended(control: socket.socket, task: str) -> dict[str, Any]:
    ours, theirs = channel_pair()
    with ours:
        with theirs:
            socket.send_fds(control, [b"\0"], [theirs.fileno()])
        claimed = Claimed(bytes(16), bytes(16), 0, "t", task, b'{"port": 9}', 0, 0, 1, 0, 1, b"")
        ours.sendall(encode(Order(claimed, Limits(memory_mb=64), timeout_s=30, grace_s=1)))
        while not isinstance(frame := receive(ours), Ended):
            assert frame is not None, "its keeper has gone without a word"
    assert frame.finished is not None, frame
    return msgspec.structs.asdict(frame.finished)


def play() -> None:
    """What the test's process does: start one, ask it for attempts, say what came of them."""
    importlib.import_module(MODULE)  # With all that it imports, while it can be read.
    ours, theirs = channel_pair()
    pid = _start(theirs, ours)
    theirs.close()
    with ours:
        ours.sendall(encode(Setup(MODULE)))
        ready = receive(ours)
        assert isinstance(ready, Ready) and not ready.refused, ready
        said = {task: _ended(ours, task) for task in ("look", "hoard", "interfaces", "peep", "look_at_self")}
    os.waitpid(pid, 0)
    sys.stdout.buffer.write(msgspec.json.encode({"warnings": ready.warnings, **said}))


@pytest.mark.skipif(os.geteuid() != 0, reason="all the other tests are this one, then")
def test_a_plain_user_isolates_too() -> None:
    code = f"from {__name__} import play; play()"
    played = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    said = msgspec.json.decode(played.stdout)
    seen = msgspec.json.decode(b64decode(said["look"]["output"]))
    assert (seen["user"], int(seen["capabilities"], 16), seen["no_new_privileges"]) == (NOBODY, 0, "1")
    assert said["hoard"]["error_class"] == "MemoryLimitExceeded"
    assert b64decode(said["peep"]["output"]) == b'"refused"'
    assert b64decode(said["look_at_self"]["output"]) == b'"well\\n"'
    if not said["warnings"]:
        assert b64decode(said["interfaces"]["output"]) == b'["lo"]'
