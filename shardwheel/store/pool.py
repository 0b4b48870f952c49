"""A pool of connections to PostgreSQL, used from threads under trio.

A statement is a plain function on a connection; the pool runs it in a worker thread, in one transaction:

    def rename(connection: Connection, job_id: bytes, name: str) -> None: ...
    await pool.run(rename, job_id, "nightly")     # committed when this returns

The function may be called again (a deadlock, a link that went stale while idle), so it does nothing but
talk to its connection, and it never commits. Each pool has places of its own: one kind of load can't starve
another. No call lasts longer than `limit_s`, whatever the server does, and none outlives its cancellation:
the link is cut, its thread ends by itself, and the link is never used again. (The driver's way, a cancel
request over a second connection, hangs just when it is needed, with a frozen server. A server that runs
notices the cut by itself.)

What fails before COMMIT is sent is an `UnavailableError` with `maybe_applied=False`. What fails after it
without an answer has `maybe_applied=True`: look before you do it again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

import trio

from shardwheel.errors import UnavailableError
from shardwheel.store.call import Call
from shardwheel.store.link import Connection, Session
from shardwheel.store.links import Links
from shardwheel.store.stream import Items, Stream

P = ParamSpec("P")
T = TypeVar("T")


class Pool:
    """At most `size` connections, opened when needed. `role`: what every session becomes by SET ROLE;
    `planner`: settings of PostgreSQL's planner, for all but streams."""

    def __init__(
        self,
        dsn: str,
        *,
        name: str,
        size: int,
        role: str | None = None,
        limit_s: float = 10.0,
        stream_limit_s: float = 600.0,
        close_limit_s: float = 5.0,
        planner: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.limit_s = limit_s
        self._links = Links(Session(dsn, name, role, limit_s, planner=planner or {}))
        self._stream_session = Session(dsn, f"{name} stream", role, stream_limit_s, read_only=True)
        self._close_limit_s = close_limit_s
        self._places = trio.CapacityLimiter(size)
        self._calls: set[Call] = set()
        self._closed = False
        self._all_ended = trio.Event()

    async def __aenter__(self) -> Pool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def run(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `fn(connection, …)` in one transaction; return its result once that is committed."""

        def work(connection: Connection) -> T:
            return fn(connection, *args, **kwargs)

        with self._call() as call:
            threaded = partial(self._links.work, call, work)
            try:
                return await call.in_thread(threaded, limit_s=self.limit_s, places=self._places)
            except UnavailableError:
                self._links.drop_idle()
                raise

    @asynccontextmanager
    async def stream(
        self, fn: Callable[Concatenate[Connection, P], Items[T]], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[AsyncIterator[T]]:
        """Iterate over what the generator `fn(connection, …)` yields, in one read-only transaction:

            async with pool.stream(read_rows, sql("load"), {"partitions": mine}) as batches:
                async for batch in batches: ...

        Each item has `limit_s` to arrive, all of them together `stream_limit_s`.
        """

        def make(connection: Connection) -> Items[T]:
            return fn(connection, *args, **kwargs)

        with self._call() as call:
            async with self._place():
                stream = Stream(self._stream_session, call, make, item_limit_s=self.limit_s)
                try:
                    yield stream
                finally:
                    await stream.aclose()

    async def aclose(self) -> None:
        """Let the calls that are under way end, for a bounded time; then cut what is left."""
        self._closed = True
        self._links.close()
        if self._calls:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + self._close_limit_s):
                await self._all_ended.wait()
        for call in self._calls:
            call.give_up()

    @contextmanager
    def _call(self) -> Iterator[Call]:
        """A call that `aclose` waits for."""
        self._refuse_if_closed()
        call = Call()
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)
            if self._closed and not self._calls:
                self._all_ended.set()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """One of the places, for longer than a single thread's work."""
        holder = object()
        with trio.move_on_after(self.limit_s) as scope:
            await self._places.acquire_on_behalf_of(holder)
        if scope.cancelled_caught:
            raise UnavailableError(f"no connection of pool {self.name} was free within {self.limit_s:g} s")
        try:
            yield
        finally:
            self._places.release_on_behalf_of(holder)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise UnavailableError(f"pool {self.name} is closed")
