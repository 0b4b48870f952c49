"""Holding on to another shard's door: the quickest way to learn that its process has died.

A connection to `GET /alive` stays open. When the other process dies, its system closes the connection at
once; then, and only then, we knock again. *Refused* means that nobody listens there any more, and another
name in the answer that somebody else does: the shard is gone. Slow, unreachable or garbled means nothing: its
lease will tell. A wrong verdict is wasteful, never harmful: the epoch decides who may store a watermark.
"""

from __future__ import annotations

import ssl
from contextlib import suppress

import h11
import msgspec
import trio

from shardwheel.http import Stream

ANSWER_LIMIT_S = 5.0
ASK_AGAIN_S = 20.0
PAUSE_S = 0.5
KNOCK_AGAIN_S = 0.02


class _Alive(msgspec.Struct):
    shard_id: str


class TcpDoors:
    """`ports.Doors` over TCP."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls

    async def until_gone(self, address: str, shard_id: str) -> None:
        host, _, port = address.rpartition(":")
        knows_it = False
        while True:
            try:
                stream = await trio.open_tcp_stream(host, int(port))
            except OSError as error:
                # Refused from the beginning: more likely a wrong address than a death.
                if knows_it and _is_refused(error):
                    return
                await trio.sleep(PAUSE_S)
                continue
            async with stream:
                answered = await _hold(self._sealed(stream), shard_id)
            if knows_it and answered not in (None, shard_id):
                return
            knows_it = knows_it or answered == shard_id
            await trio.sleep(KNOCK_AGAIN_S)

    def _sealed(self, stream: trio.SocketStream) -> Stream:
        return stream if self._tls is None else trio.SSLStream(stream, self._tls, https_compatible=True)


async def _hold(stream: Stream, shard_id: str) -> str | None:
    """Ask now and then for as long as the connection lasts and that shard answers; who answered last."""
    connection = h11.Connection(h11.CLIENT)
    answered = None
    with suppress(trio.BrokenResourceError, trio.TooSlowError, h11.ProtocolError, msgspec.MsgspecError):
        while answered in (None, shard_id):
            with trio.fail_after(ANSWER_LIMIT_S):
                answered = await _ask(connection, stream)
            with trio.move_on_after(ASK_AGAIN_S):
                # Nothing is expected to come: the wait ends with the connection.
                await stream.receive_some(1)
                break
            connection.start_next_cycle()
    return answered


async def _ask(connection: h11.Connection, stream: Stream) -> str:
    request = h11.Request(method="GET", target="/alive", headers=[("host", "shard")])
    await stream.send_all((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(4096)))
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return msgspec.json.decode(body, type=_Alive).shard_id
        elif isinstance(event, h11.ConnectionClosed):
            raise trio.BrokenResourceError("the door closed before it answered")


def _is_refused(error: OSError) -> bool:
    """trio wraps the reasons of all addresses that it tried."""
    reason = error.__cause__
    causes = reason.exceptions if isinstance(reason, BaseExceptionGroup) else [error, reason]
    return any(isinstance(cause, ConnectionRefusedError) for cause in causes)
