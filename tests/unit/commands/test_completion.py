"""Completion as somebody has it who typed `shardctl --install-completion`: in a bash of their own, by Tab."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_S = 30.0
ROOT = Path(__file__).parents[3]
READY = "ready> "
START = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"


class Typing:
    """A bash at a terminal."""

    def __init__(self, home: Path) -> None:
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        variables = {"HOME": str(home), "PATH": path, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvpe("bash", ["bash", "--noprofile", "-i"], variables)
        self._seen = ""
        self.until(READY)

    def type(self, text: str) -> None:
        self._seen = ""
        os.write(self._terminal, text.encode())

    def until(self, words: str) -> str:
        give_up_at_s = time.monotonic() + LIMIT_S
        while words not in self._seen:
            left_s = give_up_at_s - time.monotonic()
            assert left_s > 0 and select.select([self._terminal], [], [], left_s)[0], self._seen
            self._seen += os.read(self._terminal, 4_096).decode()
        return self._seen

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    command = home / "bin" / "shardctl"
    command.parent.mkdir()
    command.write_text(f"{START}from shardwheel.cli import main\nmain()\n")
    command.chmod(0o755)
    (home / ".bashrc").write_text(f"PS1='{READY}'\n")
    variables = {"HOME": str(home), "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    # Two commands, so that bash is there to be found while the first one runs.
    ran = subprocess.run(
        ["bash", "-c", "shardctl --install-completion; exit $?"],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "bash completion installed in" in ran.stdout
    assert READY in (home / ".bashrc").read_text()
    return home


@pytest.fixture
def bash(home: Path) -> Iterator[Typing]:
    typing = Typing(home)
    try:
        yield typing
    finally:
        typing.close()


@pytest.mark.parametrize(
    ("typed", "rest"),
    [
        ("shardctl expl", "explain "),
        ("shardctl job upd", "update "),
        ("shardctl dag run sh", "show "),
        ("shardctl job list --sta", "--state "),
        ("shardctl job list -o ya", "yaml "),
    ],
)
def test_tab_ends_a_word(bash: Typing, typed: str, rest: str) -> None:
    bash.type(f"{typed}\t")
    stem, _, _ = typed.rpartition(" ")
    assert bash.until(f"{stem} {rest}")


def test_tab_twice_shows_the_choices(bash: Typing) -> None:
    bash.type("shardctl rebalance \t\t")
    shown = bash.until("status")
    assert "auto" in shown
