"""A receiver of callbacks on loopback: keeps what it was sent, answers by a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import trio

from shardwheel.http import address_of, listen

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Receiver:
    """Answers each connection with the next of `answers`, the last one for ever; None: never."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers) or [OK]
        self.requests: list[tuple[h11.Request, bytes]] = []
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Receiver]:
        listeners = await listen("127.0.0.1", 0)
        self.port = int(address_of(listeners[0]).rpartition(":")[2])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._converse, listeners)
            yield self
            nursery.cancel_scope.cancel()

    def header(self, name: str) -> str:
        """Of the last request."""
        return dict(self.requests[-1][0].headers)[name.encode()].decode()

    async def _converse(self, stream: trio.SocketStream) -> None:
        request, body = await _read(stream)
        self.requests.append((request, body))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            await trio.sleep_forever()
        await stream.send_all(answer)
        await stream.aclose()


async def _read(stream: trio.SocketStream) -> tuple[h11.Request, bytes]:
    connection, request, body = h11.Connection(h11.SERVER), None, b""
    while True:
        event = connection.next_event()
        match event:
            case h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65_536))
            case h11.Request():
                request = event
            case h11.Data():
                body += event.data
            case h11.EndOfMessage():
                assert request is not None
                return request, body
            case _:
                raise AssertionError(event)
