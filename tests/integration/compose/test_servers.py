"""The embedded servers keep their data, come back on the same address, and never outlive their parent."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from shardwheel.compose import ports, process
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from shardwheel.compose.server import Server, StartError
from shardwheel.errors import UsageError
from tests.servers import START_LIMIT_S, unique_name

pytestmark = pytest.mark.servers

CHECKOUT = Path(__file__).resolve().parents[3]
# Starts the servers named on its command line, freezes them if asked, says so, and waits to be killed.
PARENT = """
import json, sys, threading
from pathlib import Path
from tests.servers import hasty_etcd, hasty_kafka, hasty_postgres

folder, frozen, *names = sys.argv[1:]
makers = {"postgres": hasty_postgres, "etcd": hasty_etcd, "kafka": hasty_kafka}
servers = {name: makers[name](Path(folder, name)) for name in names}
for server in servers.values():
    server.start()
    if frozen == "frozen":
        server.freeze()
print(json.dumps({name: server.pid for name, server in servers.items()}), flush=True)
threading.Event().wait()
"""


@contextmanager
def parent_of(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    argv = [sys.executable, "-c", PARENT, str(folder), *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as parent:
        try:
            assert parent.stdout is not None
            yield parent, json.loads(parent.stdout.readline())
        finally:
            parent.kill()


def gone(pids: list[int]) -> bool:
    return process.await_true(lambda: not any(process.alive(pid) for pid in pids), START_LIMIT_S)


def test_postgres_keeps_what_was_committed_through_a_kill_9(
    own_postgres: Callable[[], PostgresServer],
) -> None:
    server = own_postgres()
    dsn = server.dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    family = [server.pid, *process.descendants(server.pid)]
    server.kill()
    assert len(family) > 1
    assert not any(process.alive(pid) for pid in family)
    server.start()
    assert server.dsn == dsn
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_etcd_keeps_what_was_put_through_a_kill_9(own_etcd: Callable[[], EtcdServer]) -> None:
    server = own_etcd()
    endpoint = server.endpoint
    put = httpx.post(
        f"{endpoint}/v3/kv/put", json={"key": "a2V5", "value": "NDI="}, timeout=START_LIMIT_S, trust_env=False
    )
    put.raise_for_status()
    server.kill()
    server.start()
    assert server.endpoint == endpoint
    found = httpx.post(
        f"{endpoint}/v3/kv/range", json={"key": "a2V5"}, timeout=START_LIMIT_S, trust_env=False
    ).json()
    assert [pair["value"] for pair in found["kvs"]] == ["NDI="]


def test_kafka_keeps_its_topics_and_its_name_through_a_kill_9(own_kafka: Callable[[], KafkaServer]) -> None:
    server = own_kafka()
    bootstrap, topic = server.bootstrap, unique_name("kept")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=3)])[topic].result(START_LIMIT_S)
    cluster_id = admin.list_topics(timeout=START_LIMIT_S).cluster_id
    del admin
    server.kill()
    server.start()
    assert server.bootstrap == bootstrap
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=START_LIMIT_S)
    assert found.cluster_id == cluster_id
    assert len(found.topics[topic].partitions) == 3


def test_a_frozen_postgres_answers_nobody_and_is_itself_again_when_thawed(
    own_postgres: Callable[[], PostgresServer],
) -> None:
    server = own_postgres()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        server.freeze()
        connection.pgconn.send_query(b"SELECT 42")
        connection.pgconn.flush()
        assert not server.ready()
        # The open connection's backend is frozen too, not only the postmaster.
        connection.pgconn.consume_input()
        assert connection.pgconn.is_busy()
        server.thaw()
        result = connection.pgconn.get_result()
        assert result is not None
        assert result.get_value(0, 0) == b"42"
        assert connection.pgconn.get_result() is None
    assert process.await_true(server.ready, START_LIMIT_S)


def test_a_frozen_etcd_answers_nobody_and_can_be_stopped(own_etcd: Callable[[], EtcdServer]) -> None:
    server = own_etcd()
    server.freeze()
    assert not server.ready()
    server.thaw()
    assert process.await_true(server.ready, START_LIMIT_S)
    server.freeze()
    server.stop()
    assert not server.running


def test_a_taken_port_is_refused_in_one_line_and_free_again_it_is_used_again(
    own_etcd: Callable[[], EtcdServer],
) -> None:
    server = own_etcd()
    server.stop()
    with socket.create_server((ports.LOOPBACK, server.port)):
        with pytest.raises(UsageError, match=rf"^etcd: port {server.port} is taken: stop what .*$"):
            server.start()
    server.start()
    assert server.running


def test_a_server_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    server = PostgresServer(tmp_path / "postgres", durable=False)
    server.prepare()
    (server.data / "postgresql.conf").write_text("no_such_setting = on\n")
    with pytest.raises(StartError, match="no_such_setting"):
        server.start()
    assert not server.running


@pytest.mark.parametrize("kind", [PostgresServer, EtcdServer, KafkaServer])
def test_data_of_another_version_is_refused_and_left_alone(tmp_path: Path, kind: type[Server]) -> None:
    server = kind(tmp_path)
    server.data.mkdir()
    marker = server.data / "PG_VERSION" if kind is PostgresServer else tmp_path / "version"
    marker.write_text("2\n")
    with pytest.raises(UsageError, match=rf"holds data of {server.name} 2, .*--data"):
        server.prepare()
    assert sorted(tmp_path.rglob("*")) == sorted([server.data, marker])


def test_a_server_outlives_the_thread_that_started_it(own_etcd: Callable[[], EtcdServer]) -> None:
    server = own_etcd()
    server.stop()
    starter = threading.Thread(target=server.start)
    starter.start()
    own_task = Path(f"/proc/self/task/{starter.native_id}")
    starter.join()
    # `join` returns a moment before the kernel's thread is gone, and that is what a death signal waits for.
    assert process.await_true(lambda: not own_task.exists(), START_LIMIT_S)
    assert process.await_true(server.ready, START_LIMIT_S)
    assert server.running


def test_no_server_outlives_a_parent_killed_by_9(tmp_path: Path) -> None:
    with parent_of(tmp_path, "-", "postgres", "etcd", "kafka") as (parent, pids):
        # A busy backend looks at nothing until its query ends: it must be killed.
        with closing(psycopg.connect(PostgresServer(tmp_path / "postgres").dsn)) as connection:
            connection.pgconn.send_query(
                b"SELECT count(*) FROM (SELECT generate_series(1, 1000000000000)) AS endless"
            )
            connection.pgconn.flush()
            family = [pid for server in pids.values() for pid in [server, *process.descendants(server)]]
            assert connection.info.backend_pid in family
            parent.send_signal(signal.SIGKILL)
            assert gone(family)


def test_no_frozen_server_outlives_a_parent_killed_by_9(tmp_path: Path) -> None:
    with parent_of(tmp_path, "frozen", "etcd") as (parent, pids):
        parent.send_signal(signal.SIGKILL)
        assert gone(list(pids.values()))
