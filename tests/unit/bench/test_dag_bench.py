"""`shardctl bench dag`, tiny: chains, fan-outs and runs at once pass through real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardwheel.bench import dag
from shardwheel.bench.embedded import Servers
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.dag import parse_dag


def test_the_shapes_are_what_they_say() -> None:
    shapes = [parse_dag({"name": "x", "tasks": tasks}).shape for tasks in (dag.chain_of(100), dag.layers())]
    assert [shape.depth for shape in shapes] == [100, 10]
    assert sum(len(task["depends_on"]) for task in dag.layers()) == 9 * 25


@pytest.mark.servers
def test_dags_are_measured(
    migrated_database: str,
    etcd_server: EtcdServer,
    own_kafka: Callable[[], KafkaServer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = Servers(migrated_database, etcd_server.endpoint, own_kafka().bootstrap)
    result = dag.measure_dag(servers, 3, 5, 2, lambda _: None)
    assert result["stuck"] == 0
    assert min(result["chain_step_ms"], result["job_p50_ms"], result["fan_out_s"], result["tasks_per_s"]) > 0
    dag.print_result(result)
    assert "a task of the chain" in capsys.readouterr().out
    dag.picture(result, tmp_path / "dag.png")
    assert (tmp_path / "dag.png").read_bytes().startswith(b"\x89PNG")
