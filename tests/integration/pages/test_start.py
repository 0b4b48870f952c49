"""docs/start.md as a newcomer walks through it: its own folder, its own `shardctl dev`, broken and mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pages.dev import environment
from tests.pages import blocks_of, pages
from tests.shell import Shell, Walk, shardctl_ready

pytestmark = pytest.mark.servers
PAGE = "docs/start.md"


def test_a_newcomer(tmp_path: Path) -> None:
    blocks = list(blocks_of(PAGE, pages()[PAGE]))
    home = tmp_path / "home"
    home.mkdir()
    with shardctl_ready(home) as bin_folder:
        shell = Shell(tmp_path, environment(bin_folder, home))
        try:
            walk = Walk(shell)
            for block in blocks:
                walk.walk(block)
            assert walk.steps == sum(len(block.steps) for block in blocks if not block.not_run) > 15
        finally:
            shell.close()
