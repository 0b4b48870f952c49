"""`shardctl bench e2e`, tiny, without the kills: jobs pass through real processes, none lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardwheel.bench import e2e
from shardwheel.bench.embedded import Servers
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from tests.unit.bench.contract import assert_contract


@pytest.mark.servers
def test_the_whole_loop_is_measured(
    migrated_database: str,
    etcd_server: EtcdServer,
    own_kafka: Callable[[], KafkaServer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = Servers(migrated_database, etcd_server.endpoint, own_kafka().bootstrap)
    result = e2e.measure_e2e(servers, 20, 0.1, lambda _: None, kill=())
    assert_contract("e2e", result)
    assert (result["lost"], result["doubled"]) == (0, 0)
    assert 0 < result["p50_ms"] <= result["p99_ms"]
    assert result["per_s"] > 0
    assert result["raw_sql_per_s"] > 0
    e2e.print_result(result)
    assert "claim and settle alone" in capsys.readouterr().out
    e2e.picture(result, tmp_path / "e2e.png")
    assert (tmp_path / "e2e.png").read_bytes().startswith(b"\x89PNG")
