"""`shardctl bench coldstart`, tiny: the fresh process loads what was stored and fires rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.bench import coldstart
from tests.unit.bench.contract import assert_contract


@pytest.mark.servers
def test_a_fresh_process_loads_and_fires(
    migrated_database: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # Enough jobs that some are due within a second or so.
    coldstart.fill(migrated_database, 3_000)
    figures = coldstart.measure_coldstart(migrated_database, 3_000, 0.1, lambda _: None)
    assert_contract("coldstart", [figures])
    assert figures["jobs"] == 3_000
    assert figures["seconds"] > 0
    assert figures["copy_seconds"] > 0
    assert figures["rss_bytes_per_job"] > 0
    coldstart.print_result([figures])
    assert "3,000" in capsys.readouterr().out
    coldstart.picture([figures], tmp_path / "coldstart.png")
    assert (tmp_path / "coldstart.png").read_bytes().startswith(b"\x89PNG")
