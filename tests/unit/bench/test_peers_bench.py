"""`shardctl bench peers`, tiny: two that need no further packages, and a peer that hangs or breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.bench.peers import answer
from shardwheel.bench.peers.run import measure_peers
from shardwheel.bench.peers.work import Size
from tests.unit.bench.contract import assert_contract


@pytest.mark.servers
def test_the_same_work_is_done_by_each_alone(
    migrated_database: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    size = Size(limit_s=60.0, window_s=1.0).scaled(0.001)._replace(window_s=1.0, recurring=(10,))
    peers = ["naive-heapq", "naive-postgres"]
    report = measure_peers(migrated_database, peers, ["herd", "once"], size, lambda _: None)
    assert_contract("peers", report)
    assert [one["peer"] for one in report] == peers
    for one in report:
        assert one["fire_per_s"] > 0
        assert one["e2e_per_s"] > 0
    assert report[0]["cannot"].keys() == {"restart"}
    answer.print_result(report)
    assert "naive-postgres" in capsys.readouterr().out
    answer.picture(report, tmp_path / "peers.png")
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")
