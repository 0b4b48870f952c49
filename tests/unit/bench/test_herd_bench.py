"""`shardctl bench herd`, tiny: all are due at nine, each is fired once, and the curve rises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from shardwheel.bench import herd
from shardwheel.bench.firing import expected_of
from shardwheel.compose.kafka import KafkaServer


def test_the_herd_is_due_at_nine_and_at_no_other_time() -> None:
    entries = list(herd.herd_entries(20, herd.NINE_MS - 2_000))
    assert len(expected_of(entries, herd.NINE_MS - 1, herd.NINE_MS)) == 20
    assert not expected_of(entries, herd.NINE_MS, herd.NINE_MS + 3_600_000)


@pytest.mark.servers
def test_every_one_of_the_herd_is_fired_once(
    own_kafka: Callable[[], KafkaServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result = trio.run(herd.measure_herd, own_kafka().bootstrap, 500, 0.5, lambda _: None)
    assert (result["missed"], result["doubled"]) == (0, 0)
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
    assert list(result["lateness_ms"].values()) == sorted(result["lateness_ms"].values())
    assert result["bare_ms"] > 0
    herd.print_result(result)
    assert "500 jobs due at 09:00" in capsys.readouterr().out
    herd.picture(result, tmp_path / "herd.png")
    assert (tmp_path / "herd.png").read_bytes().startswith(b"\x89PNG")
