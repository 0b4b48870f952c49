"""`shardctl bench all` and `bench quick`: what runs, what is skipped, what fails."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from shardwheel.bench import campaign, commands, quick


def test_every_run_is_a_command_with_known_options() -> None:
    for run in campaign.RUNS:
        name, *options = run.arguments
        told = CliRunner().invoke(commands.app, [name, "--help"], env={"COLUMNS": "200"})
        assert told.exit_code == 0, run.name
        assert all(option in told.output for option in options if option.startswith("--"))
        assert "--json" in told.output
        assert ("--keep" in told.output) == run.keeps


def test_runs_are_chosen_by_name() -> None:
    assert campaign.chosen("") == list(campaign.RUNS)
    assert [run.name for run in campaign.chosen("tick, wheel")] == ["wheel", "tick"]
    with pytest.raises(ValueError, match="'tock' is no run"):
        campaign.chosen("tock")


def test_what_was_done_today_is_skipped_and_a_failure_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(command[4])
        failed = command[4] == "claim"
        return subprocess.CompletedProcess(command, int(failed), b'{"per_s": 1}')

    monkeypatch.setattr(subprocess, "run", run)
    old = {"began_at": "2026-01-01T00:00Z", "command": "", "took_s": 1, "result": {"old": True}}
    campaign.keep(tmp_path / "claim.json", old)
    campaign.keep(tmp_path / "tick.json", old | {"began_at": datetime.now(UTC).isoformat()})
    runs = campaign.chosen("tick,claim,e2e")
    said: list[str] = []
    failed = campaign.run_all(runs, tmp_path, again=False, plan=False, say=said.append)
    assert (asked, failed) == (["claim", "e2e"], ["claim"])
    assert campaign.read_run(tmp_path / "claim.json") == old
    assert campaign.read_run(tmp_path / "e2e.json")["result"] == {"per_s": 1}
    assert "2 to run, about 5 min together" in said
    assert campaign.run_all(runs, tmp_path, again=False, plan=True, say=said.append) == []
    assert said[-1].startswith("1 to run")


def test_rows_are_kept_while_a_long_run_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [1, 0]

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        Path(command[command.index("--keep") + 1]).write_text("rows")
        return subprocess.CompletedProcess(command, codes.pop(0), b"[]")

    monkeypatch.setattr(subprocess, "run", run)
    runs, rows = campaign.chosen("peers"), tmp_path / "peers.rows"
    assert campaign.run_all(runs, tmp_path, again=False, plan=False, say=lambda _: None) == ["peers"]
    assert rows.exists()
    assert campaign.run_all(runs, tmp_path, again=False, plan=False, say=lambda _: None) == []
    assert not rows.exists()
    assert campaign.read_run(tmp_path / "peers.json")["command"] == "shardctl bench peers --limit 45"


def test_a_ratio_that_falls_by_more_than_30_percent_fails() -> None:
    before = {"kept": 1.0, "fell": 1.0, "rose": 1.0}
    found = quick.compare({"kept": 0.71, "fell": 0.69, "rose": 5.0, "new": 3.0}, before)
    assert found["fallen"] == ["fell"]
    assert found["ratios"]["new"] == {"today": 3.0, "baseline": None, "change": None}


def test_the_command_ends_with_one_when_a_ratio_fell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    monkeypatch.setattr(quick, "measure_ratios", lambda say: {"fire": 0.5})
    quick.bench_quick(lambda _: None, write=True, baseline=baseline)
    assert quick.bench_quick(lambda _: None, baseline=baseline)["fallen"] == []
    monkeypatch.setattr(quick, "measure_ratios", lambda say: {"fire": 0.2})
    fallen = quick.bench_quick(lambda _: None, baseline=baseline)
    assert fallen["fallen"] == ["fire"]
    monkeypatch.setattr(quick, "bench_quick", lambda say, write: fallen)
    told = CliRunner().invoke(commands.app, ["quick"], env={"COLUMNS": "200"})
    assert told.exit_code == 1
    assert "FALLEN" in told.output


def test_the_committed_baseline_is_of_some_machine_and_has_only_ratios() -> None:
    kept = msgspec.json.decode(quick.BASELINE.read_bytes(), type=dict[str, Any])
    assert kept.pop("machine")["versions"]
    assert kept
    assert all(ratio > 0 for ratio in kept.values())
