"""`shardctl bench fire`, tiny: one shard and a bare loop really publish; the table shows all."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from shardwheel.bench import fire
from shardwheel.bench.stored import TOPIC_PARTITIONS, entries_of, hold
from shardwheel.compose.kafka import KafkaServer
from shardwheel.kafka import Kafka
from shardwheel.topics import JOB_TOPICS, job_topics
from tests.unit.bench.contract import assert_contract


@pytest.mark.servers
def test_both_ways_publish_to_kafka(
    kafka_server: KafkaServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def one_process(count: int, burst: fire.Burst, bootstrap: str, held: int, seconds: float) -> float:
        holdings = hold(entries_of(held, fire.START_MS, 1_000.0), fire.START_MS)
        return count * burst(bootstrap, holdings, seconds)

    async def published() -> int:
        bus = Kafka(kafka_server.bootstrap)
        await bus.ensure_topics(job_topics(TOPIC_PARTITIONS))
        return sum((await bus.end_offsets(JOB_TOPICS)).values())

    monkeypatch.setattr(fire, "_at_once", one_process)
    before = trio.run(published)
    result = fire.measure_fire(kafka_server.bootstrap, 0.4, lambda _: None, held=500)
    assert trio.run(published) > before
    assert_contract("fire", result)
    assert result["fires_per_s"] == result["by_shards"]["1"] > 0
    assert result["bare_produce_per_s"] > 0
    fire.print_result(result)
    assert "bare produce" in capsys.readouterr().out
    fire.picture(result, tmp_path / "fire.png")
    assert (tmp_path / "fire.png").read_bytes().startswith(b"\x89PNG")
