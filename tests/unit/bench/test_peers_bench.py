"""`shardctl bench peers`, tiny: two that need no further packages; and drivers that hang or break."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shardwheel.bench.peers import answer
from shardwheel.bench.peers import run as peers_run
from shardwheel.bench.peers.kept import Kept
from shardwheel.bench.peers.remains import MARK, end_remains, marked
from shardwheel.bench.peers.run import measure_peers
from shardwheel.bench.peers.work import Row, Size
from tests.unit.bench.contract import assert_contract


@pytest.mark.servers
def test_the_same_work_is_done_by_each_alone(
    migrated_database: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    size = Size(limit_s=60.0, window_s=1.0).scaled(0.001)._replace(window_s=1.0, recurring=(10,))
    peers = ["naive-heapq", "naive-postgres"]
    kept = Kept(tmp_path / "rows", {})
    rows = ["herd", "once"]
    report = measure_peers(migrated_database, peers, rows, size, lambda _: None, kept)
    told: list[str] = []
    again = measure_peers("nowhere", peers, rows, size, told.append, Kept(tmp_path / "rows", {}))
    assert [one | {"machine": {}} for one in again] == [one | {"machine": {}} for one in report]
    assert all("kept from before" in line for line in told)
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


def driven_by(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Row:
    """What is told of a driver that does this."""
    monkeypatch.setattr(peers_run, "_SLACK_S", 0.3)
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return peers_run._drive(str(python), "dsn", folder, "naive-heapq", "herd", 0, Size(limit_s=0.1))


def test_a_driver_that_breaks_is_told_by_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = driven_by("echo first >&2; echo no such table >&2; exit 3", tmp_path, monkeypatch)
    assert found == {"unfinished": "failed: no such table"}


def test_a_driver_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = driven_by(f"echo $$ > {tmp_path}/pid; exec sleep 600", tmp_path, monkeypatch)
    assert found["unfinished"].startswith("hung: ended by force")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_driver_answers_with_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert driven_by("echo noise; echo '{\"per_s\": 5}'", tmp_path, monkeypatch) == {"per_s": 5}


def test_a_row_that_breaks_takes_no_other_with_it() -> None:
    def say(_: str) -> None:
        pass

    (entry,) = measure_peers(
        "postgresql://127.0.0.1:1/none", ["naive-heapq"], ["herd"], Size(), say, Kept(None, {})
    )
    assert entry["cannot"]["herd"].startswith("failed: OperationalError")


def test_what_a_row_left_running_is_ended_and_nobody_else(tmp_path: Path) -> None:
    mine, other = str(tmp_path / "mine"), str(tmp_path / "mine-too")
    left, stays = (
        subprocess.Popen(["sleep", "600"], env={MARK: mark}, start_new_session=True) for mark in (mine, other)
    )
    try:
        assert end_remains(mine) == [left.pid]
        left.wait()
        assert (marked(mine), marked(other)) == ([], [stays.pid])
    finally:
        stays.kill()
        stays.wait()
