"""A server that does what a test says, request by request: for what a real etcd won't do on demand.

    async with scripted(answer({"header": {}}), cut, hang) as script:
        ...  # the first request is answered, the second cut, the third hangs
        await script.wait_for_requests(3)

Everything happens in the test's own thread, so a request that was recorded was really sent.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

Step = Callable[[trio.SocketStream], Awaitable[None]]


@dataclass
class Request:
    path: str
    token: str
    body: Any


@dataclass
class Script:
    endpoint: str
    steps: Iterator[Step]
    requests: list[Request] = field(default_factory=list)
    open_connections: int = 0
    _changed: trio.Event = field(default_factory=trio.Event)

    async def wait_for_requests(self, number: int) -> None:
        await self._wait(lambda: len(self.requests) >= number)

    async def wait_until_left(self) -> None:
        """Every client has closed its connections."""
        await self._wait(lambda: self.open_connections == 0)

    async def _wait(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await self._changed.wait()

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        self.open_connections += 1
        try:
            while request := await _read_request(stream):
                self.requests.append(request)
                self._note()
                await next(self.steps)(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client left, or the step ended the connection.
        finally:
            self.open_connections -= 1
            self._note()


@asynccontextmanager
async def scripted(*steps: Step) -> AsyncIterator[Script]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    script = Script(f"http://127.0.0.1:{port}", iter(steps))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, script.serve, [listener])
        yield script
        nursery.cancel_scope.cancel()


@contextmanager
def refusing_endpoint() -> Iterator[str]:
    """An address where nobody listens, and nobody else can begin to while the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def answer(body: object, status: int = 200) -> Step:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()

    async def step(stream: trio.SocketStream) -> None:
        head = f"HTTP/1.1 {status} Whatever\r\ncontent-length: {len(content)}\r\n\r\n"
        await stream.send_all(head.encode() + content)

    return step


def trouble(code: int, status: int) -> Step:
    """An error in the form etcd gives it."""
    return answer({"error": "scripted", "code": code, "message": "scripted"}, status)


async def cut(stream: trio.SocketStream) -> None:
    """End the connection without an answer."""
    await stream.aclose()


async def hang(stream: trio.SocketStream) -> None:
    """Say nothing until the client leaves."""
    await stream.receive_some()
    await stream.aclose()


def stream_of(*messages: object, then: Step = hang) -> Step:
    """The beginning of a stream, a line a message (a string is sent as it is), and how it goes on."""

    async def step(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for message in messages:
            line = (message if isinstance(message, str) else json.dumps({"result": message}) + "\n").encode()
            await stream.send_all(b"%x\r\n%s\r\n" % (len(line), line))
        await then(stream)

    return step


async def _read_request(stream: trio.SocketStream) -> Request | None:
    received = b""
    while b"\r\n\r\n" not in received:
        if not (chunk := await stream.receive_some()):
            return None
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += await stream.receive_some()
    return Request(first.split()[1], headers.get("authorization", ""), json.loads(body))
