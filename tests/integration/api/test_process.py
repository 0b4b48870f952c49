"""`shardctl api` as a process: it serves, is refused in one line, and finishes what it holds at SIGTERM."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from shardwheel.compose import ports
from shardwheel.compose.etcd import EtcdServer
from tests.integration.api.rig import SECRET, token

pytestmark = pytest.mark.servers

LIMIT_S = 90.0


def command(dsn: str, etcd: EtcdServer, port: int, secret: str = SECRET) -> subprocess.Popen[str]:
    own = {"POSTGRES_DSN": dsn, "ETCD_ENDPOINTS": etcd.endpoint, "SECRET": secret, "HTTP_PORT": str(port)}
    return subprocess.Popen(
        [sys.executable, "-m", "shardwheel.cli", "api"],
        env={**os.environ, **{f"SHARDWHEEL_{name}": value for name, value in own.items()}},
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running(dsn: str, etcd: EtcdServer, port: int) -> Iterator[subprocess.Popen[str]]:
    process = command(dsn, etcd, port)
    try:
        give_up_at_s = time.monotonic() + LIMIT_S
        while not ports.accepts(port):
            assert process.poll() is None and time.monotonic() < give_up_at_s
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_what_is_under_way_is_finished_at_sigterm(migrated_database: str, etcd_server: EtcdServer) -> None:
    port = ports.choose()
    body = b'{"task": "work", "delay": "1h"}'
    head = (
        f"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token()}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with running(migrated_database, etcd_server, port) as process:
        url = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{url}/readyz").json() == {"status": "ready"}
        # No shards, but etcd knows so.
        shards = httpx.get(f"{url}/api/v1/shards", headers={"authorization": f"Bearer {token()}"})
        assert shards.json() == {"items": [], "next_cursor": None}
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
            connection.sendall(head.encode() + body[:10])
            # The server has read what was sent once it answers another one behind it.
            assert httpx.get(f"{url}/healthz").status_code == 200
            process.send_signal(signal.SIGTERM)
            give_up_at_s = time.monotonic() + LIMIT_S
            while ports.accepts(port):
                assert time.monotonic() < give_up_at_s
                time.sleep(0.02)
            connection.sendall(body[10:])
            assert connection.recv(65_536).startswith(b"HTTP/1.1 201")
        assert process.wait(LIMIT_S) == 0


def test_listeners_do_not_hold_up_the_end_and_the_cluster_can_be_asked(
    migrated_database: str, etcd_server: EtcdServer
) -> None:
    port = ports.choose()
    headers = {"authorization": f"Bearer {token()}"}
    with running(migrated_database, etcd_server, port) as process:
        url = f"http://127.0.0.1:{port}/api/v1"
        # Through this process's own etcd connection: no shard is alive to level.
        assert httpx.post(f"{url}/rebalance", headers=headers).status_code == 409
        with httpx.stream("GET", f"{url}/events", headers=headers, timeout=LIMIT_S) as heard:
            lines = heard.iter_lines()
            assert next(lines) == "event: start"
            process.send_signal(signal.SIGTERM)
            # The stream comes to its own end.
            assert [line for line in lines if line.startswith("event")] == []
        assert process.wait(LIMIT_S) == 0


def test_a_wrong_start_is_one_line(migrated_database: str, etcd_server: EtcdServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = command(migrated_database, etcd_server, port)
        _, said = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, len(said.splitlines())) == (2, 1)
        assert "choose another with --http-port" in said
    process = command(migrated_database, etcd_server, 0, secret="short")
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2 and "at least 32" in said
