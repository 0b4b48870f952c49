"""`shardctl bench sleepers`, tiny: all sleep at once in a real worker, and none runs twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardwheel.bench import sleepers
from shardwheel.bench.embedded import Servers
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer


@pytest.mark.servers
def test_sleepers_are_measured(
    migrated_database: str,
    etcd_server: EtcdServer,
    own_kafka: Callable[[], KafkaServer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = Servers(migrated_database, etcd_server.endpoint, own_kafka().bootstrap)
    result = sleepers.measure_sleepers(servers, 20, 3.0, lambda _: None)
    assert (result["sleepers"], result["repeated"]) == (20, 0)
    assert result["rss_bytes"] >= result["rss_bytes_idle"] > 0
    sleepers.print_result(result)
    assert "run again" in capsys.readouterr().out
    sleepers.picture(result, tmp_path / "sleepers.png")
    assert (tmp_path / "sleepers.png").read_bytes().startswith(b"\x89PNG")
