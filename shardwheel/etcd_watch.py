"""A watch of one prefix through the gateway: it resumes by itself, and says when it may have missed a thing.

The stream is one long HTTP answer, a line of JSON a message. Its place is kept as "the next revision to
see", so that a cut stream goes on at the last revision + 1 and nothing is lost or told twice.

A stream can stall without ending (a frozen server, a dead network, a member cut off from its cluster) and
the gateway lets us send nothing after the request, so there is no ping. Instead silence ends the stream:
after `silence_s` without a line it is opened again at the same place, at the next endpoint. That costs one
request every few seconds on an idle prefix, and finds every kind of stall.

`None` is said when etcd has compacted the place away, and when etcd's revision is below the place: its
data was lost, or the endpoint lags. Both mean: read the prefix again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import httpx
import trio

from shardwheel.etcd_codec import KeySpace, RefusedError, ServerTroubleError, WatchResult, decode_watch
from shardwheel.etcd_gateway import TRANSIENT, Gateway
from shardwheel.ports import KeyEvent

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class Watch:
    """An async iterator of batches of events; `close` it when done. One task at a time."""

    def __init__(
        self, gateway: Gateway, keys: KeySpace, prefix: str, from_revision: int, silence_s: float
    ) -> None:
        self._gateway = gateway
        self._keys = keys
        self._prefix = prefix
        self._next_revision = from_revision
        self._silence_s = silence_s
        self._endpoint = gateway.current
        self._pause_s = FIRST_PAUSE_S
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._unread = b""

    def __aiter__(self) -> AsyncIterator[Sequence[KeyEvent] | None]:
        return self

    async def __anext__(self) -> Sequence[KeyEvent] | None:
        while True:
            result = await self._next_result()
            if result is None:
                continue
            if result.events:
                self._pause_s = FIRST_PAUSE_S
                self._next_revision = result.events[-1].kv.mod_revision + 1
                return tuple(self._keys.event(event) for event in result.events)
            if await self._lost_its_place(result):
                return None

    async def close(self) -> None:
        """Let the stream go. Closing a socket waits for nobody, so cancelling must not cut it short."""
        with trio.CancelScope(shield=True):
            await self._finish_chunks()
            if self._response is not None:
                await self._response.aclose()
        self._response = None
        self._unread = b""

    async def _lost_its_place(self, result: WatchResult) -> bool:
        if result.compact_revision:
            self._next_revision = result.compact_revision
        elif result.created and result.header.revision < self._next_revision - 1:
            self._next_revision = result.header.revision + 1
        else:
            return False
        await self.close()
        return True

    async def _next_result(self) -> WatchResult | None:
        """The next message; None when the stream ended, or stood still, and a new one is to be opened."""
        try:
            with trio.fail_after(self._silence_s):
                return decode_watch(await self._next_line())
        except (*TRANSIENT, RefusedError) as error:
            await self.close()
            self._endpoint = self._gateway.next_after(self._endpoint)
            if isinstance(error, (ServerTroubleError, RefusedError)):
                self._gateway.forget_token(self._gateway.token)  # An ended token is one reason.
            if not isinstance(error, trio.TooSlowError):  # Silence has taken its time already.
                await trio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            return None

    async def _next_line(self) -> bytes:
        if self._chunks is None:
            self._chunks = await self._open()
        while b"\n" not in self._unread:
            try:
                self._unread += await anext(self._chunks)
            except StopAsyncIteration:
                raise ServerTroubleError("the stream ended") from None
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    async def _open(self) -> AsyncIterator[bytes]:
        first, after_last = self._keys.wire_range(self._prefix)
        create = {
            "key": first,
            "range_end": after_last,
            "start_revision": self._next_revision,
            "progress_notify": True,  # A sign of life, where the server is set to give it often.
        }
        self._response = await self._gateway.open_stream(
            self._endpoint, "/v3/watch", {"create_request": create}, self._silence_s
        )
        return self._response.aiter_raw()

    async def _finish_chunks(self) -> None:
        """End the reading by cancelling it in mid-read.

        httpx reads through a chain of async generators. Left suspended, they would be finished by the
        garbage collector some time later; an exception from the innermost read ends them all, now.
        """
        if self._chunks is None:
            return
        with trio.CancelScope() as scope:
            scope.cancel()
            with suppress(httpx.RequestError):
                async for _ in self._chunks:
                    pass
        self._chunks = None
