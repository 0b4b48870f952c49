"""An API that answers every route with the example of its own description: what verbs show, without a server
of ours behind it. It remembers what it was asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from shardwheel.api.app import PREFIX, ROUTES


class Asked(NamedTuple):
    route: str
    path: str
    query: dict[str, str]
    body: Any
    token: str


class Stub:
    """`answers` takes the place of an example: a value, or a status with an error's message."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []
        self.answers: dict[str, Any] = {}

    def names(self) -> list[str]:
        return [one.route for one in self.asked]


PATTERNS = [
    (route, re.compile(re.sub(r"\\\{\w+\\\}", "([^/]+)", re.escape(PREFIX + route.path)))) for route in ROUTES
]


@contextmanager
def stub_api() -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            body = msgspec.json.decode(self.rfile.read(length)) if length else None
            path = unquote(parts.path)
            found = [
                route for route, shape in PATTERNS if route.method == self.command and shape.fullmatch(path)
            ]
            # The longest address is the one that says most: `…:pause` is no id.
            route = max(found, key=lambda one: len(one.path), default=None)
            if route is None:
                self.reply(404, error_of("there is no such route"))
                return
            token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
            stub.asked.append(Asked(route.name, path, dict(parse_qsl(parts.query)), body, token))
            answer = stub.answers.get(route.name, route.example)
            if isinstance(answer, tuple):
                self.reply(answer[0], error_of(answer[1]))
            else:
                self.reply(route.status, answer)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer  # noqa: N815

        def reply(self, status: int, value: Any) -> None:
            content = msgspec.json.encode(value)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub = Stub(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def error_of(message: str) -> dict[str, Any]:
    return {"error": {"code": "stub", "message": message, "field": None}}
