"""`Client`: each call returns when it is done. Threads may share one."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TypeVar

import httpx

from shardwheel.client.everything import Everything
from shardwheel.client.method import Listing
from shardwheel.client.pages import Pages
from shardwheel.client.script import Done, Lost, Pause, Query, Reply, Script, Send, Step, advance
from shardwheel.client.sending import lost, reply_of, request_of
from shardwheel.errors import UsageError

T = TypeVar("T")


class Client(Everything):
    """Over HTTP, on connections that are used again until `close`, or the end of a `with`."""

    _http: httpx.Client | None = None
    # Of all clients: it is held for a moment only, when one makes its first call.
    _opening = threading.Lock()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections. The next call opens new ones."""
        http, self._http = self._http, None
        if http is not None:
            http.close()

    def run(self, script: Script[T]) -> T:
        """Do what a script says, step by step, and return what it comes to."""
        step = advance(script)
        while not isinstance(step, Done):
            step = advance(script, self._do(step))
        result: T = step.value
        return result

    def items(self, wanted: Listing[T]) -> Iterator[T]:
        """Everything on a list, page after page."""
        pages = Pages(wanted)
        while pages.wants_more:
            yield from self.run(self._page(pages))

    def _do(self, step: Step) -> Any:
        match step:
            case Send():
                return self._send(step)
            case Pause(seconds):
                time.sleep(seconds)
            case Query():
                return self._query(step)
        return None

    def _send(self, send: Send) -> Reply | Lost:
        request = request_of(send, *self._address(), self._timeout_s)
        with self._opening:
            if self._http is None:
                self._http = httpx.Client(trust_env=False, verify=self._verify)
            http = self._http
        try:
            return reply_of(http.send(request))
        except httpx.TransportError as error:
            return lost(error)

    def _query(self, query: Query) -> list[Any]:
        # Who only speaks HTTP needs no database driver.
        from shardwheel.client.own_transaction import fetch

        if inspect.iscoroutinefunction(query.conn.execute):
            raise UsageError("conn: is asynchronous; use AsyncClient", field="conn")
        return fetch(query)

    def _now_s(self) -> float:
        return time.monotonic()
