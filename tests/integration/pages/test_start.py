"""docs/start.md as a newcomer walks through it: its own folder, its own `shardctl dev`, broken and mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pages.dev import environment, walk_through
from tests.shell import shardctl_ready

pytestmark = pytest.mark.servers


def test_a_newcomer(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with shardctl_ready(home) as bin_folder:
        walk_through("docs/start.md", tmp_path, environment(bin_folder, home), least=16)
