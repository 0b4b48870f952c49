"""`AsyncClient`: the same calls, awaited; under trio and under asyncio alike."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import httpx

from shardwheel.client.everything import Everything
from shardwheel.client.method import Listing
from shardwheel.client.pages import Pages
from shardwheel.client.script import Done, Lost, Pause, Query, Reply, Script, Send, Step, advance
from shardwheel.client.sending import lost, reply_of, request_of

T = TypeVar("T")


class AsyncClient(Everything):
    """Over HTTP, on connections that are used again until `aclose`, or the end of an `async with`. It belongs
    to the event loop that made its first call."""

    _http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the connections. The next call opens new ones."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def run(self, script: Script[T]) -> T:
        """Do what a script says, step by step, and return what it comes to."""
        step = advance(script)
        while not isinstance(step, Done):
            step = advance(script, await self._do(step))
        result: T = step.value
        return result

    async def items(self, wanted: Listing[T]) -> AsyncIterator[T]:
        """Everything on a list, page after page."""
        pages = Pages(wanted)
        while pages.wants_more:
            for item in await self.run(self._page(pages)):
                yield item

    async def _do(self, step: Step) -> Any:
        match step:
            case Send():
                return await self._send(step)
            case Pause(seconds):
                await anyio.sleep(seconds)
            case Query():
                return await self._query(step)
        return None

    async def _send(self, send: Send) -> Reply | Lost:
        request = request_of(send, *self._address(), self._timeout_s)
        if self._http is None:
            self._http = httpx.AsyncClient(trust_env=False, verify=self._verify)
        try:
            return reply_of(await self._http.send(request))
        except httpx.TransportError as error:
            return lost(error)

    async def _query(self, query: Query) -> list[Any]:
        """A plain connection is used in a thread."""
        # Who only speaks HTTP needs no database driver.
        from shardwheel.client.own_transaction import fetch, fetch_async

        if inspect.iscoroutinefunction(query.conn.execute):
            return await fetch_async(query)
        return await anyio.to_thread.run_sync(fetch, query)

    def _now_s(self) -> float:
        return anyio.current_time()
