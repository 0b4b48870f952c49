"""How long the server waits for a client: uvicorn alone would wait for ever.

A client that connects and says nothing, says its headers byte by byte, sends the body of a request that is
answered already, or does not take its answer, costs a file descriptor and perhaps some megabytes, and next to
nothing on its own side: ten thousand of them are cheap to send and lock everybody out. (Bodies that somebody
reads: see `limits`. How many clients there may be: see `crowd`.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shardwheel.api import crowd
from shardwheel.api.errors import Refusal

HEAD_LIMIT_S = 10.0
HEAD_LIMIT_BYTES = 65_536
# The rest of a body whose request is answered is read for so long, so that its client comes to the answer.
REST_LIMIT_S = 10.0
# Of an answer that waits for its client, so much must be taken in each such time.
TAKE_LIMIT_S = 10.0
TAKE_LEAST_BYTES = 65_536
NO_HTTP = Refusal(400, "invalid", "this is not HTTP/1.1; send a well-formed request")


class PatientLoop(uvloop.Loop):
    """A client that connects and does not shake hands has no protocol yet that could lose its patience."""

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("ssl") is not None:
            kwargs |= dict.fromkeys(("ssl_handshake_timeout", "ssl_shutdown_timeout"), HEAD_LIMIT_S)
        return await super().create_server(*args, **kwargs)


class Wait:
    """One wait with an end."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._timer is not None

    def begin(self, limit_s: float, then: Callable[[], None]) -> None:
        """Unless it is on already."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(limit_s, self._over, then)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self, then: Callable[[], None]) -> None:
        self._timer = None
        then()


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's own protocol, with an end to its patience."""

    _head_bytes = 0
    _untaken_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head, self._rest, self._taking = Wait(), Wait(), Wait()
        self._begin_head()
        place = crowd.place_of(len(self.connections))
        if place is crowd.Place.REFUSED:
            self.app = crowd.refuse
        elif place is crowd.Place.NONE:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for wait in (self._head, self._rest, self._taking):
            wait.end()
        crowd.UNREAD.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head.is_on:
            # The head is not over yet, so all of this was head.
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES:
                self._hang_up()
        elif self._is_idle():
            # Line breaks between two requests: they begin none, but they end uvicorn's own wait for one.
            self._begin_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        self._head.end()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._rest.end()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_taking()
        elif self.cycle.response_complete and self.cycle.more_body:
            self._rest.begin(REST_LIMIT_S, self._hang_up)

    def pause_writing(self) -> None:
        super().pause_writing()
        crowd.UNREAD.add(self, self.transport.get_write_buffer_size(), self.transport.abort)
        self._watch_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        crowd.UNREAD.discard(self)
        self._taking.end()
        if self.transport.is_closing():
            self._watch_taking()

    def shutdown(self) -> None:
        """The server stops. Under TLS a client that idles need not answer that the connection ends, and would
        hold up the end of us all."""
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        self._hang_up()

    def send_400_response(self, msg: str) -> None:
        body = NO_HTTP.body()
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self._hang_up()

    def _is_idle(self) -> bool:
        is_over = self.cycle is None or self.cycle.response_complete
        is_waiting = self._rest.is_on or self.timeout_keep_alive_task is not None
        return is_over and not is_waiting and not self.transport.is_closing()

    def _begin_head(self) -> None:
        self._head_bytes = 0
        self._head.begin(HEAD_LIMIT_S, self._hang_up)

    def _watch_taking(self) -> None:
        self._untaken_bytes = self.transport.get_write_buffer_size()
        self._taking.begin(TAKE_LIMIT_S, self._look_at_taking)

    def _look_at_taking(self) -> None:
        untaken = self.transport.get_write_buffer_size()
        if untaken and self._untaken_bytes - untaken < TAKE_LEAST_BYTES:
            self.transport.abort()
        elif untaken:
            self._watch_taking()

    def _hang_up(self) -> None:
        """What is written still goes, if it is taken."""
        self._head.end()
        self.transport.close()
        self._watch_taking()
