"""A reader's terminal: `shardctl` on the path, and `shardctl dev` running or still to be started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardwheel.compose import process
from shardwheel.compose.postgres import binaries
from shardwheel.compose.stack import Stack, running_stack
from tests.pages import ROOT, blocks_of, pages
from tests.shell import LIMIT_S, Shell, Walk

COLUMNS = 100
KEPT = {"SHARDWHEEL_CACHE"}


def environment(bin_folder: Path, home: Path) -> dict[str, str]:
    """As a user has it who has set nothing: `dev` keeps its data below `home`."""
    kept = {name: value for name, value in os.environ.items() if "SHARDWHEEL" not in name or name in KEPT}
    path = os.pathsep.join(
        map(str, (bin_folder, binaries(), Path(sys.executable).parent, os.environ["PATH"]))
    )
    return kept | {"PATH": path, "XDG_DATA_HOME": str(home), "COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8"}


@contextmanager
def dev_running(home: Path, variables: dict[str, str], *arguments: str) -> Iterator[Stack]:
    with (home / "dev.out").open("wb") as output:
        command = [sys.executable, "-m", "shardwheel.cli", "dev", *arguments]
        dev = subprocess.Popen(command, env=variables, cwd=ROOT, stdout=output, stderr=output)
    try:
        said = home / "dev.out"
        is_up = process.await_true(
            lambda: "everything is up" in said.read_text() or dev.poll() is not None, LIMIT_S
        )
        assert is_up and dev.poll() is None, said.read_text()
        stack = running_stack(home / "shardwheel" / "dev")
        assert stack is not None
        yield stack
    finally:
        dev.send_signal(signal.SIGTERM)
        try:
            dev.wait(LIMIT_S)
        finally:
            dev.kill()


def walk_through(page: str, folder: Path, variables: dict[str, str], *, least: int) -> None:
    """Every command of a page, in one shell; `least` so many there are, or the page was not read well."""
    blocks = list(blocks_of(page, pages()[page]))
    shell = Shell(folder, variables)
    try:
        walk = Walk(shell)
        for block in blocks:
            walk.walk(block)
        assert walk.steps == sum(len(block.steps) for block in blocks if not block.not_run) >= least
    finally:
        shell.close()
