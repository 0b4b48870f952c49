"""Clients that take their time, and too many of them: ended or refused before anything runs out."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from shardwheel.api import app, crowd, limits, patience, turns
from shardwheel.api.app import PREFIX
from shardwheel.job import Pool
from tests.integration.api.rig import Rig, served, token

pytestmark = pytest.mark.servers
PATIENCE_S = 60.0


@contextmanager
def connected(api: Rig, *, room: int | None = None) -> Iterator[socket.socket]:
    """`room`: how much the kernel keeps for a client that reads nothing."""
    host, port = api.client.base_url.host, api.client.base_url.port
    assert port is not None
    with socket.socket() as connection:
        connection.settimeout(PATIENCE_S)
        if room is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        connection.connect((host, port))
        yield connection


def head(method: str, path: str, *more: str, known: bool = True) -> bytes:
    own = [f"authorization: Bearer {token('slow')}"] if known else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: x", *own, *more, "", ""]).encode()


def until_end(connection: socket.socket) -> bytes:
    found = b""
    while piece := connection.recv(1 << 20):
        found += piece
    return found


@pytest.fixture(scope="module")
def large(api: Rig) -> str:
    """The path of a list whose answer is larger than what kernels keep for anybody."""
    jobs = [{"task": "work", "cron": "0 9 * * *", "params": {"x": "y" * 65_000}}] * 200
    assert api.call("POST", "/jobs:batch", jobs, tenant="slow").status_code == 201
    return f"{PREFIX}/jobs?limit=200"


def test_a_client_that_does_not_take_its_answer_is_cut_off(
    api: Rig, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[object] = []
    monkeypatch.setattr(patience, "TAKE_LIMIT_S", 0.05)
    monkeypatch.setattr(crowd, "UNREAD", Watched(cut))
    with connected(api, room=4_096) as connection:
        connection.sendall(head("GET", large))
        give_up_at_s = time.monotonic() + PATIENCE_S
        while not cut:
            assert time.monotonic() < give_up_at_s
            time.sleep(0.01)
        answer = until_end(connection)
    announced = int(answer.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
    assert announced > 13_000_000 > len(answer)


class Watched(crowd.Unread):
    """Tells of each client that has gone, or has taken its answer."""

    def __init__(self, gone: list[object]) -> None:
        super().__init__()
        self._gone = gone

    def discard(self, client: object) -> None:
        if client in self._waiting:
            super().discard(client)
            self._gone.append(client)


def test_a_client_that_takes_as_much_as_it_must_gets_it_all(
    api: Rig, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked after again and again, and let be."""
    monkeypatch.setattr(patience, "TAKE_LIMIT_S", 0.001)
    monkeypatch.setattr(patience, "TAKE_LEAST_BYTES", 0)
    with connected(api, room=65_536) as connection:
        connection.sendall(head("GET", large, "connection: close"))
        answer = until_end(connection)
    announced = int(answer.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
    assert len(answer.split(b"\r\n\r\n", 1)[1]) == announced > 13_000_000


def test_the_rest_of_a_body_that_is_answered_already(api: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused for want of a token, it could go on to send a byte a minute for ever."""
    monkeypatch.setattr(patience, "REST_LIMIT_S", 0.05)
    with connected(api) as connection:
        connection.sendall(head("POST", f"{PREFIX}/jobs", "content-length: 100", known=False) + b"{")
        assert until_end(connection).startswith(b"HTTP/1.1 401")


def test_the_rest_of_a_body_may_still_come(api: Rig) -> None:
    with connected(api) as connection:
        connection.sendall(head("POST", f"{PREFIX}/jobs", "content-length: 100", known=False) + b"{")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401")
        connection.sendall(b" " * 99 + head("GET", "/healthz", known=False))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_line_breaks_between_requests_keep_no_connection(api: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_LIMIT_S", 0.05)
    with connected(api) as connection:
        connection.sendall(head("GET", "/healthz", known=False))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"\r\n")
        assert connection.recv(1) == b""


def test_many_connections_are_refused_with_when_to_come_again(
    api: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.client.get("/healthz").status_code == 200
    monkeypatch.setattr(crowd, "most_connections", lambda: 0)
    with connected(api) as connection:
        connection.sendall(head("GET", "/healthz"))
        answer = until_end(connection)
        assert answer.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in answer
        assert b'"code":"unavailable"' in answer
    # Who has a place keeps it.
    assert api.client.get("/healthz").status_code == 200


def test_beyond_those_the_line_is_cut(api: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "most_connections", lambda: 0)
    monkeypatch.setattr(crowd, "MOST_REFUSED", 0)
    with connected(api) as connection:
        assert connection.recv(1) == b""


def test_too_many_requests_at_once_are_a_503(api: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_UNDER_WAY", 0)
    answer = api.call("GET", "/jobs")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_bodies_beyond_what_memory_is_for_are_a_503(api: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALL_LIMIT_BYTES", 1_000)
    answer = api.call("POST", "/jobs", {"task": "work", "params": {"x": "y" * 1_000}})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    monkeypatch.undo()
    # What was held is given back.
    assert api.call("POST", "/jobs", {"task": "work"}).status_code == 201


@pytest.mark.parametrize(
    "said", [b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_http_is_refused_as_everything_else(api: Rig, said: bytes) -> None:
    with connected(api) as connection:
        connection.sendall(said)
        answer = until_end(connection)
    assert answer.startswith(b"HTTP/1.1 400") and b'{"error":{"code":"invalid"' in answer


def test_slow_lists_leave_room_for_who_stores_a_job(api: Rig) -> None:
    """However many lists are asked for, however long each takes: they take turns."""
    job = api.job("quick")
    waiting = "SELECT count(*) >= %s FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    with (
        ThreadPoolExecutor(8) as threads,
        psycopg.connect(api.dsn, autocommit=True) as observer,
        psycopg.connect(api.dsn) as conn,
    ):
        conn.execute("LOCK TABLE shardwheel.dead_letters IN ACCESS EXCLUSIVE MODE")
        lists = [threads.submit(api.call, "GET", "/dead-letters", tenant="slow") for _ in range(8)]
        give_up_at_s = time.monotonic() + PATIENCE_S
        while observer.execute(waiting, [turns.MOST_AT_ONCE, conn.info.backend_pid]).fetchone() != (True,):
            assert time.monotonic() < give_up_at_s
            time.sleep(0.01)
        assert api.call("POST", "/jobs", {"task": "work"}, tenant="quick").status_code == 201
        assert api.call("POST", f"/jobs/{job['id']}:pause", tenant="quick").status_code == 200
        assert not any(one.done() for one in lists)
        conn.rollback()
        assert [one.result(PATIENCE_S).status_code for one in lists] == [200] * 8


def test_who_waits_for_kafka_keeps_no_large_batch_waiting(api: Rig) -> None:
    go_on, held = threading.Event(), threading.Semaphore(0)

    def lag(pool: str) -> int:
        held.release()
        assert go_on.wait(PATIENCE_S)
        return 7

    jobs = [{"task": "work", "params": {"x": "y" * 1_000}}] * 100
    with ThreadPoolExecutor(8) as threads, served(api.dsn, lag) as rig:
        try:
            asked = [threads.submit(rig.call, "GET", "/pools") for _ in range(8)]
            for _ in Pool:
                assert held.acquire(timeout=PATIENCE_S)
            assert rig.call("POST", "/jobs:batch", jobs, tenant="quick").status_code == 201
            assert not any(one.done() for one in asked)
        finally:
            go_on.set()
        lags = [item["lag"] for one in asked for item in one.result(PATIENCE_S).json()["items"]]
        assert lags == [7] * 8 * len(Pool)
