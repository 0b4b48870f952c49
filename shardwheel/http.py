"""A service's own small door: `/metrics`, `/healthz`, and the few routes that the service adds.

h11 parses, trio listens. It is not the API: no tokens, no bodies above 64 KiB. In plain HTTP it is for
loopback or a private network only. With TLS (`shardwheel/tls.py`) who has no certificate of the cluster may
look at `/metrics` and `/healthz`, as Prometheus and probes do, and at nothing else. It exists because a shard
must answer a poke on its own event loop, and a second framework in every process would weigh more than these
lines.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import h11
import trio

from shardwheel.errors import UsageError
from shardwheel.metrics import CONTENT_TYPE, exposition

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
BODY_LIMIT_BYTES = 65_536
IDLE_LIMIT_S = 60.0
HANDSHAKE_LIMIT_S = 10.0
OPEN_TO_ALL = frozenset({"/metrics", "/healthz"})


class Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str = "application/json"


Route = Callable[[bytes], Awaitable[Answer]]
Routes = Mapping[tuple[str, str], Route]


class Visit(NamedTuple):
    """One connection, and whether who knocks belongs to the cluster, as far as we ask."""

    stream: Stream
    is_ours: bool


async def metrics_route(_body: bytes) -> Answer:
    return Answer(200, exposition(), CONTENT_TYPE)


async def listen(host: str, port: int) -> list[trio.SocketListener]:
    """Open the door (port 0: any free one); a taken port is the caller's to change."""
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} can't be listened on ({error.strerror}); choose another with --http-port",
            field="http_port",
        ) from error


def address_of(listener: trio.SocketListener) -> str:
    return address_of_socket(listener.socket)


def address_of_socket(listener: socket.socket | trio.socket.SocketType) -> str:
    host, port = listener.getsockname()[:2]
    return f"{host}:{port}"


async def serve(
    routes: Routes, listeners: list[trio.SocketListener], tls: ssl.SSLContext | None = None
) -> None:
    """Answer until cancelled. A broken or slow client harms only its own connection."""

    async def one(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                await _converse(routes, await _greet(stream, tls))
            except (trio.BrokenResourceError, trio.TooSlowError, h11.RemoteProtocolError):
                return

    await trio.serve_listeners(one, listeners)


async def _greet(stream: trio.SocketStream, tls: ssl.SSLContext | None) -> Visit:
    if tls is None:
        return Visit(stream, is_ours=True)
    sealed = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
    with trio.fail_after(HANDSHAKE_LIMIT_S):
        await sealed.do_handshake()
    return Visit(sealed, is_ours=bool(sealed.getpeercert()))


async def _converse(routes: Routes, visit: Visit) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=16_384)
    while True:
        with trio.fail_after(IDLE_LIMIT_S):
            request = await _next_event(connection, visit.stream)
            if not isinstance(request, h11.Request):
                return
            answer = await _answer(routes, request, connection, visit)
            await _send(connection, visit.stream, answer)
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def _answer(routes: Routes, request: h11.Request, connection: h11.Connection, visit: Visit) -> Answer:
    body = bytearray()
    while isinstance(event := await _next_event(connection, visit.stream), h11.Data):
        body += event.data
        if len(body) > BODY_LIMIT_BYTES:
            return Answer(413, b'{"error": {"code": "too_large", "message": "the body is over 64 KiB"}}')
    path = request.target.decode("ascii", "replace").partition("?")[0]
    route = routes.get((request.method.decode("ascii"), path))
    if route is None:
        return Answer(404, b'{"error": {"code": "not_found", "message": "no such route"}}')
    if not visit.is_ours and path not in OPEN_TO_ALL:
        return Answer(403, b'{"error": {"code": "forbidden", "message": "no certificate of the cluster"}}')
    return await route(bytes(body))


async def _next_event(connection: h11.Connection, stream: Stream) -> h11.Event | None:
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(16_384)))
        elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
            return event
        else:
            return None


async def _send(connection: h11.Connection, stream: Stream, answer: Answer) -> None:
    headers = [("content-type", answer.content_type), ("content-length", str(len(answer.body)))]
    if connection.their_state is not h11.DONE:
        headers.append(("connection", "close"))
    events: list[h11.Event] = [h11.Response(status_code=answer.status, headers=headers)]
    events += [h11.Data(data=answer.body), h11.EndOfMessage()]
    await stream.send_all(b"".join(connection.send(event) or b"" for event in events))
