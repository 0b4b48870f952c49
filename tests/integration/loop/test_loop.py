"""The loop on real servers, whole and under every loss: nothing is lost, nothing runs twice."""

from __future__ import annotations

import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from shardwheel.store.jobs import get_job
from shardwheel.store.migrate import migrate
from tests.integration.loop.rig import Loop

pytestmark = pytest.mark.servers
# What runs often enough to be hit by every fault, and is caught up whole afterwards.
STEADY = {"every": "200ms", "misfire": "fire_all", "misfire_grace_s": 600}


@pytest.fixture
def loop(
    tmp_path: Path,
    migrated_database: str,
    etcd_server: EtcdServer,
    own_kafka: Callable[[], KafkaServer],
) -> Iterator[Loop]:
    cluster = f"loop-{uuid.uuid4().hex[:8]}"
    rig = Loop(tmp_path, migrated_database, etcd_server.address, own_kafka().bootstrap, cluster)
    yield rig
    rig.close()


def test_the_way_through_the_house(loop: Loop) -> None:
    once = loop.create("echo", params={"x": 1})
    loop.start_all()
    number = loop.create("plain", params={"number": 41})
    flaky, hopeless, apart = loop.create("flaky"), loop.create("hopeless"), loop.create("apart")
    series = loop.create("echo", every="100ms", max_runs=5)
    loop.wait("a once runs", lambda: loop.states(once) == ["succeeded"])
    assert loop.executions(once)[0]["output"] == {"params": {"x": 1}, "attempt": 1}
    loop.wait("a plain function runs", lambda: loop.states(number) == ["succeeded"])
    assert loop.executions(number)[0]["output"] == 42
    loop.wait("a retry succeeds", lambda: loop.states(flaky) == ["succeeded"])
    row = loop.executions(flaky)[0]
    assert (row["attempt"], row["failures"], row["output"]) == (2, 1, "at last")
    loop.wait("the hopeless is given up", lambda: loop.states(hopeless) == ["dead"])
    with loop.connect() as conn:
        letters = conn.execute("SELECT task, reason, message FROM shardwheel.dead_letters").fetchall()
    assert letters == [("hopeless", "fatal", "there is no point")]
    loop.wait("an isolated function runs", lambda: loop.states(apart) == ["succeeded"])
    assert loop.executions(apart)[0]["output"] == {"checkpoint": {"at": 1}, "sees": []}
    with loop.connect() as conn:
        logs = conn.execute("SELECT lines FROM shardwheel.execution_logs").fetchall()
    assert "printed by a child" in str(logs)
    loop.wait("a series runs", lambda: loop.states(series) == ["succeeded"] * 5)
    loop.check_whole(series)

    def completed() -> bool:
        with loop.connect() as conn:
            return all(get_job(conn, "default", job.job_id).state == "completed" for job in (once, series))

    loop.wait("jobs that are over complete", completed)


def test_what_a_killed_worker_held_runs_again_and_a_stopped_one_gives_back(
    loop: Loop, tmp_path: Path
) -> None:
    _, worker, _ = loop.start_all()
    began, go = tmp_path / "began", tmp_path / "go"
    job = loop.create("slow", params={"began": str(began), "go": str(go)})
    loop.wait("it runs", began.exists)
    loop.end(worker)
    with loop.connect() as conn:  # As if its lease had run out: nobody waits half a minute for that here.
        conn.execute("UPDATE shardwheel.executions SET lease_until = now() WHERE state = 'running'")
    began.unlink()
    second = loop.start("worker")
    loop.wait("it runs again", began.exists)
    row = loop.executions(job)[0]
    assert (row["attempt"], row["failures"], row["crashes"]) == (2, 0, 1)
    go.touch()
    loop.wait("it ends", lambda: loop.states(job) == ["succeeded"])
    assert loop.executions(job)[0]["output"] == 2
    assert loop.end(second, signal.SIGTERM) == 0


def test_shards_killed_frozen_and_handing_over_lose_nothing(loop: Loop) -> None:
    shard, _, _ = loop.start_all()
    job = loop.create("echo", **STEADY)
    loop.wait("it fires", lambda: loop.count(job) >= 5)
    loop.end(shard)
    second = loop.start("shard")
    before = loop.count(job)
    loop.wait("another shard goes on", lambda: loop.count(job) >= before + 10)
    second.send_signal(signal.SIGSTOP)
    stopped_at = loop.count(job)
    second.send_signal(signal.SIGCONT)
    loop.wait("it goes on after a freeze", lambda: loop.count(job) >= stopped_at + 10)
    assert loop.end(second, signal.SIGTERM) == 0
    loop.start("shard")
    before = loop.count(job)
    loop.wait("the next one takes over at once", lambda: loop.count(job) >= before + 10)
    loop.check_whole(job)


def test_kafka_away_and_then_wiped_loses_nothing(
    tmp_path: Path, migrated_database: str, etcd_server: EtcdServer, own_kafka: Callable[[], KafkaServer]
) -> None:
    kafka = own_kafka()
    loop = Loop(
        tmp_path, migrated_database, etcd_server.address, kafka.bootstrap, f"loop-{uuid.uuid4().hex[:8]}"
    )
    try:
        loop.start_all()
        job = loop.create("echo", **STEADY)
        loop.wait("it fires", lambda: loop.count(job) >= 5)
        kafka.kill()
        kafka.start()
        before = loop.count(job)
        loop.wait("it goes on", lambda: loop.count(job) >= before + 10)
        kafka.kill()
        shutil.rmtree(kafka.data)
        kafka.start()
        before = loop.count(job)
        loop.wait("it goes on without Kafka's data", lambda: loop.count(job) >= before + 10)
        loop.check_whole(job)
    finally:
        loop.close()


def test_postgres_away_loses_nothing(
    tmp_path: Path,
    own_postgres: Callable[[], PostgresServer],
    etcd_server: EtcdServer,
    own_kafka: Callable[[], KafkaServer],
) -> None:
    postgres = own_postgres()
    with psycopg.connect(postgres.dsn, autocommit=True) as conn:
        migrate(conn)
    cluster = f"loop-{uuid.uuid4().hex[:8]}"
    loop = Loop(tmp_path, postgres.dsn, etcd_server.address, own_kafka().bootstrap, cluster)
    try:
        loop.start_all()
        job = loop.create("echo", **STEADY)
        loop.wait("it fires", lambda: loop.count(job) >= 5)
        postgres.stop()
        postgres.start(120)
        before = loop.count(job)
        loop.wait("it goes on", lambda: loop.count(job) >= before + 10)
        loop.check_whole(job)
    finally:
        loop.close()
