"""`shardctl dev` as a user meets it: processes that are started, killed, started again, and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from shardwheel.compose import process
from shardwheel.compose.stack import Stack, running_stack

pytestmark = pytest.mark.servers

LIMIT_S = 600


def until(condition: Callable[[], bool], what: str) -> None:
    assert process.await_true(condition, LIMIT_S), f"never happened: {what}"


def shardctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardwheel.cli", *arguments], capture_output=True, text=True, timeout=LIMIT_S
    )


class Dev:
    """One `shardctl dev`, its output in a file."""

    def __init__(self, data: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        self.data = data
        self._output = data.with_suffix(".out")
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "shardwheel.cli", "dev", "--data", str(data), *arguments],
                env={**os.environ, **(variables or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said(self, words: str) -> bool:
        return words in self._output.read_text()

    def wait_until_up(self) -> Stack:
        until(lambda: self.said("everything is up") or self.process.poll() is not None, "up or over")
        assert self.process.poll() is None, self._output.read_text()
        return self.stack()

    def stack(self) -> Stack:
        stack = running_stack(self.data)
        assert stack is not None
        return stack

    def pid_of(self, role: str) -> int:
        pid = next(row.pid for row in self.stack().processes if row.role == role)
        assert pid is not None
        return pid

    def end(self) -> None:
        """Whatever state it is in: with the supervisor everything else goes too."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Dev]]:
    started: list[Dev] = []

    def start_one(name: str, *arguments: str, **variables: str) -> Dev:
        started.append(Dev(tmp_path / name, *arguments, variables=variables))
        return started[-1]

    try:
        yield start_one
    finally:
        for dev in started:
            dev.end()


def everyone(stack: Stack) -> list[int]:
    return [stack.pid, *process.descendants(stack.pid)]


def put_data(settings: Mapping[str, Any]) -> None:
    with psycopg.connect(settings["postgres_dsn"]) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    body = {"key": "a2V5", "value": "dmFsdWU="}
    httpx.post(f"{settings['etcd_endpoints'][0]}/v3/kv/put", json=body, timeout=LIMIT_S).raise_for_status()
    producer = Producer({"bootstrap.servers": settings["kafka_bootstrap"]})
    producer.produce("shardwheel.results", b"kept", partition=0)
    assert producer.flush(LIMIT_S) == 0


def assert_data_is_there(settings: Mapping[str, Any]) -> None:
    with psycopg.connect(settings["postgres_dsn"]) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    answer = httpx.post(
        f"{settings['etcd_endpoints'][0]}/v3/kv/range", json={"key": "a2V5"}, timeout=LIMIT_S
    ).json()
    assert answer["kvs"][0]["value"] == "dmFsdWU="
    consumer = Consumer({"bootstrap.servers": settings["kafka_bootstrap"], "group.id": "test"})
    try:
        low_and_high = consumer.get_watermark_offsets(
            TopicPartition("shardwheel.results", 0), timeout=LIMIT_S
        )
        assert low_and_high == (0, 1)
    finally:
        consumer.close()


def test_the_life_of_a_stack(start: Callable[..., Dev], tmp_path: Path) -> None:
    first = start("first", "--shards", "1")
    stack = first.wait_until_up()
    put_data(stack.settings)

    status = shardctl("dev", "status", "--data", str(first.data), "-o", "json")
    rows = msgspec.json.decode(status.stdout)
    servers, services = ["postgres", "etcd", "kafka"], ["results", "shard", "api", "alerts"]
    assert [row["role"] for row in rows] == ["supervisor", *servers, *services]
    for row in rows:
        assert process.alive(row["pid"])
        assert row["state"] == "running"
        assert Path(row["log"]).exists()
        assert row["address"].startswith("127.0.0.1:") or row["role"] == "supervisor"

    # The API knows the token that the stack made.
    token = (first.data / "token").read_text()
    address = next(row["address"] for row in rows if row["role"] == "api")
    answer = httpx.get(f"http://{address}/api/v1/shards", headers={"authorization": f"Bearer {token}"})
    assert [shard["state"] for shard in answer.json()["items"]] == ["active"]
    assert first.said(str(first.data / "token")) and not first.said(token)

    refused = shardctl("dev", "--data", str(first.data))
    assert refused.returncode == 4
    assert refused.stderr.startswith("shardctl: another `shardctl dev` runs on ")

    # A child that dies is restarted, and said so.
    os.kill(first.pid_of("etcd"), signal.SIGKILL)
    until(lambda: first.said("etcd is back"), "etcd is back")
    assert first.said("etcd was killed by SIGKILL; ") and first.said("it is started again in ")
    assert next(row.restarts for row in first.stack().processes if row.role == "etcd") >= 1

    # A second stack beside it, with servers of the first: it starts, and stops, only what is its own.
    second = start(
        "second",
        "--shards",
        "0",
        SHARDWHEEL_POSTGRES_DSN=stack.settings["postgres_dsn"],
        SHARDWHEEL_KAFKA_BOOTSTRAP=stack.settings["kafka_bootstrap"],
    )
    beside = second.wait_until_up()
    assert [row.role for row in beside.processes] == ["supervisor", "etcd", "results", "api", "alerts"]
    assert beside.settings["etcd_endpoints"] != stack.settings["etcd_endpoints"]
    theirs = everyone(beside)
    stopped = shardctl("dev", "stop", "--data", str(second.data), "-o", "json")
    assert msgspec.json.decode(stopped.stdout) == {"data": str(second.data), "state": "stopped"}
    assert second.process.wait(LIMIT_S) == 0
    assert not any(process.alive(pid) for pid in theirs)

    # kill -9 of the supervisor leaves no process; the next one finds all data.
    family = everyone(first.stack())
    assert len(family) > 4
    first.process.kill()
    first.process.wait()
    until(lambda: not any(process.alive(pid) for pid in family), "nobody is left")
    again = start("first", "--shards", "1")
    stack = again.wait_until_up()
    assert_data_is_there(stack.settings)

    family = everyone(stack)
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(LIMIT_S) == 0
    assert not any(process.alive(pid) for pid in family)
    gone = shardctl("dev", "status", "--data", str(again.data))
    assert (gone.returncode, gone.stdout) == (3, "")
    logs = shardctl("dev", "logs", "supervisor", "--data", str(again.data))
    assert "etcd was killed by SIGKILL" in logs.stdout
