"""`make demo ONCE=1`, after the set-up: it checks itself, and ends with 0 only if all of it was well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.servers

LIMIT_S = 600


def test_the_demo_shows_every_part_healthy_and_stops_cleanly(tmp_path: Path) -> None:
    # What the environment points elsewhere is left alone.
    environment = {**os.environ, "TMPDIR": str(tmp_path), "SHARDWHEEL_POSTGRES_DSN": "postgresql://nowhere"}
    demo = subprocess.run(
        [sys.executable, "-m", "shardwheel.compose.demo", "--once"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    passed, of = (int(word) for word in demo.stdout.splitlines()[-1].split() if word.isdigit())
    assert passed == of >= 10
    assert list(tmp_path.iterdir()) == []
