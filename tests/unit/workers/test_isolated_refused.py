"""A system that allows no network namespace: said once, and handlers run all the same. Such a system is
made here by a process in a user namespace of its own, where no further ones are allowed; nobody else
notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from shardwheel.wire import Outcome
from tests.unit.workers.isolated_rig import isolating

ROOT = Path(__file__).parents[3]
CANT = 3


# Before anything is imported that has threads: no process with them may enter a user namespace.
CODE = f"""
import pathlib, sys
from shardwheel.workers.confine import _separate_as_user
try:
    _separate_as_user()
    pathlib.Path("/proc/sys/user/max_net_namespaces").write_text("0")
except OSError:
    sys.exit({CANT})
import trio
from {__name__} import call_twice
trio.run(call_twice)
"""


async def call_twice() -> None:
    async with isolating() as rig:
        ends = [await rig.call("look") for _ in range(2)]
    assert [end.outcome for end in ends] == [Outcome.SUCCEEDED] * 2, ends
    sys.stdout.buffer.write(msgspec.json.encode(rig.isolation.warnings) + b"\n")


def test_it_is_said_once_and_handlers_run() -> None:
    played = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, stdout=subprocess.PIPE)
    if played.returncode == CANT:
        pytest.skip("no user namespace can be had here, to forbid others in")
    assert played.returncode == 0
    (warning,) = msgspec.json.decode(played.stdout.splitlines()[-1])
    assert "share this machine's network" in warning and "unshare: " in warning
    assert played.stdout.count(b"share this machine's network") == 2, "in the log, and here"
