"""How long the server waits for a request's head: uvicorn alone would wait for ever.

A client that connects and says nothing, or says its headers byte by byte, costs a file descriptor and nothing
else, so ten thousand of them are cheap to send and lock everybody out. (Bodies: see `limits`.)
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT_S = 10.0
HEAD_LIMIT_BYTES = 65_536


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's own protocol, with an end to its patience."""

    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin()

    def on_headers_complete(self) -> None:
        self._end()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._timer is not None:
            # The head is not over yet, so all of this was head.
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES:
                self._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._head_bytes = 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_LIMIT_S, self._hang_up)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        self._end()
        self.transport.close()
