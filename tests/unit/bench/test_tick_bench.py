"""`shardctl bench tick`, tiny: every fire is there, once, and measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from shardwheel.bench import tick
from shardwheel.compose.kafka import KafkaServer
from tests.unit.bench.contract import assert_contract


@pytest.mark.servers
def test_every_fire_is_measured_and_found_again(
    own_kafka: Callable[[], KafkaServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result = trio.run(tick.measure_tick, own_kafka().bootstrap, 1_000, 500.0, 1.0, lambda _: None)
    assert_contract("tick", result)
    assert (result["held"], result["rate"]) == (1_000, 500.0)
    assert (result["missed"], result["doubled"], result["unexpected"]) == (0, 0, 0)
    assert result["fires"] == sum(count for _, count in result["histogram_ms"]) > 0
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
    assert result["bare_ack_p99_ms"] > 0
    tick.print_result(result)
    assert "bare acknowledgement" in capsys.readouterr().out
    tick.picture(result, tmp_path / "tick.png")
    assert (tmp_path / "tick.png").read_bytes().startswith(b"\x89PNG")
