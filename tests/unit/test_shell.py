"""The shell that walks through pages leaves nobody behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.shell import LIMIT_S, Shell


def test_what_runs_on_ends_with_its_shell(tmp_path: Path) -> None:
    shell = Shell(tmp_path, os.environ)
    path = shell.keep("bash -c 'echo $$; sleep 1000; true'; true")
    give_up_at_s = time.monotonic() + LIMIT_S
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < give_up_at_s
        time.sleep(0.02)
    shell.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)
