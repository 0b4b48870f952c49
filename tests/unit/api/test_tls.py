"""TLS: the application's answers over it, and files that are refused by name."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

import httpx
import pytest
from litestar.types import Receive, Scope, Send

from shardwheel.api.server import open_socket, uvicorn_for
from shardwheel.api.tls import server_context
from shardwheel.errors import UsageError
from shardwheel.settings import load_settings

FILES = Path(__file__).parents[2] / "contract" / "tls"
CERT, KEY = str(FILES / "server.pem"), str(FILES / "server.key")


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello", "more_body": False})


def test_it_is_served_with_the_certificate_and_not_without_tls() -> None:
    listener = open_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = uvicorn_for(hello, server_context(CERT, KEY))
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()
    try:
        trusting = ssl.create_default_context(cafile=FILES / "ca.pem")
        with httpx.Client(verify=trusting, trust_env=False, timeout=30) as client:
            assert client.get(f"https://127.0.0.1:{port}/").text == "hello"
            with pytest.raises(httpx.HTTPError):
                client.get(f"http://127.0.0.1:{port}/")
    finally:
        server.should_exit = True
        thread.join()


def test_without_files_it_is_plain() -> None:
    assert server_context("", "") is None


@pytest.mark.parametrize(
    ("cert", "key"), [("nowhere.pem", KEY), (KEY, CERT), (CERT, str(FILES / "client.key"))]
)
def test_files_that_can_not_be_used_are_named(cert: str, key: str) -> None:
    with pytest.raises(UsageError, match="http_tls_cert") as refused:
        server_context(cert, key)
    assert cert in str(refused.value)


def test_one_without_the_other_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        load_settings(flags={"http_tls_cert": "a.pem"})
    assert refused.value.field == "http_tls_key"
