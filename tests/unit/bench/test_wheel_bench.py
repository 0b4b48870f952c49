"""`shardctl bench wheel`: its answer's shape, and those of its figures that do not depend on the machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shardwheel.bench import commands, report, turning, wheel
from shardwheel.bench.filling import STAND_MS, Filling
from shardwheel.bench.footprint import footprint
from shardwheel.bench.turning import turn_wheels
from shardwheel.errors import UsageError
from tests.unit.bench.contract import assert_contract

SMALL = (1_024,)


@pytest.fixture(scope="module")
def result() -> wheel.Result:
    """One small run for all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turning, "SEGMENT_MS", 1_000)
        return wheel.bench_wheel(0.1, lambda _: None, held=SMALL)


def test_the_answer_has_the_fields_of_the_contract(result: wheel.Result) -> None:
    assert result["held"] == list(SMALL)
    assert_contract("wheel", result, held={"1024"})


def test_json_is_all_that_standard_output_holds(
    result: wheel.Result, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def measured(seconds: float, say: object) -> wheel.Result:
        asked.append(seconds)
        report.say("some progress")
        return result

    monkeypatch.setattr(wheel, "bench_wheel", measured)
    picture = tmp_path / "wheel.png"
    run = CliRunner().invoke(commands.app, ["wheel", "--json", "--seconds", "3", "--plot", str(picture)])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout) == result
    assert "some progress" in run.stderr
    assert asked == [3.0]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_table_names_every_size(result: wheel.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "bench_wheel", lambda seconds, say: result)
    run = CliRunner().invoke(commands.app, ["wheel"])
    assert run.exit_code == 0, run.output
    assert "1,024" in run.stdout
    assert "croniter" in run.stdout


def test_a_picture_without_matplotlib_says_which_extra_is_missing(
    result: wheel.Result, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"shardwheel\[plot\]"):
        wheel.picture(result, tmp_path / "wheel.png")


def test_touches_do_not_grow_with_what_is_held() -> None:
    few, many = turn_wheels([Filling(10_000), Filling(100_000)], limit_s=1.0)
    assert many.touches_per_due <= 1.2 * few.touches_per_due


def test_an_entry_costs_less_than_200_bytes() -> None:
    assert footprint(held=4_000, stand_ms=STAND_MS, entries=400_000).bytes_per_entry < 200
