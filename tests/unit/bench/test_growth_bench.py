"""`shardctl bench growth`, tiny: each cost is measured with what is really held."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.bench import growth
from shardwheel.bench.coldstart import fill
from shardwheel.bench.measure import machine


def test_a_fire_is_measured_on_a_wheel_that_holds_the_jobs() -> None:
    cost = growth.fire_cost(2_000)
    assert cost["fire_us"] > 0


@pytest.mark.servers
def test_creates_and_takeovers_are_measured_beside_what_is_stored(
    migrated_database: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "_CREATES", 2)
    fill(migrated_database, 1_000)
    taken = growth.takeover_cost(migrated_database)
    assert 1_000 // 3 * 0.7 < taken["takeover_jobs"] < 1_000 // 3 * 1.3
    row = {"jobs": 1_000, "fire_us": 1.0, "bytes_per_job": 1.0, "machine": machine()}
    row |= growth.create_cost(migrated_database) | taken
    growth.print_result([row])
    assert "1,000" in capsys.readouterr().out
    growth.picture([row], tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
