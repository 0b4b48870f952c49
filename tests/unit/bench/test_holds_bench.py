"""`shardctl bench holds`, tiny: a breaker opens by itself, holds the rest, and others go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardwheel.bench import holds
from shardwheel.bench.embedded import Servers
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer


@pytest.mark.servers
def test_a_flood_is_held_and_others_run(
    migrated_database: str,
    etcd_server: EtcdServer,
    own_kafka: Callable[[], KafkaServer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = Servers(migrated_database, etcd_server.endpoint, own_kafka().bootstrap)
    result = holds.measure_holds(servers, 200, 20, 1, lambda _: None)
    assert result["held"] >= 199  # A probe may be on its way.
    assert result["per_s_beside_held"] > 0
    holds.print_result(result)
    assert "beside what is held" in capsys.readouterr().out
    holds.picture(result, tmp_path / "holds.png")
    assert (tmp_path / "holds.png").read_bytes().startswith(b"\x89PNG")
