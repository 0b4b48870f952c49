"""`shardctl bench isolated`, tiny: it really starts children, and tells the fields it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.bench.isolated import bench_isolated, picture, print_result


def test_starts_are_measured_beside_python_anew(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = bench_isolated(2, lambda _: None)
    assert result["runs"] == 2
    assert 0 < result["start_p50_ms"] <= result["run_p50_ms"]
    assert result["ratio"] == result["start_p50_ms"] / result["python_anew_p50_ms"]
    print_result(result)
    assert "Python started anew" in capsys.readouterr().out
    picture(result, tmp_path / "isolated.png")
    assert (tmp_path / "isolated.png").stat().st_size > 0
