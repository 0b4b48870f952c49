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

import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

import psycopg
import trio

from shardwheel.errors import UnavailableError
from shardwheel.store.call import Call
from shardwheel.store.failures import Meaning, meaning_of, one_line
from shardwheel.store.link import Connection, Link, Session, open_link
from shardwheel.store.stream import Items, Stream
from shardwheel.store.transaction import transact

P = ParamSpec("P")
T = TypeVar("T")

# How often one call's work is repeated because two transactions met.
CONFLICT_RETRIES = 5
CONFLICT_PAUSE_S = 0.02
# After a connection was refused the next attempt waits this long; twice as long after each further one.
RECONNECT_FIRST_S = 0.02
RECONNECT_MOST_S = 0.5


class Pool:
    """At most `size` connections, opened when needed. `role`: what every session becomes by SET ROLE."""

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
    ) -> None:
        self.name = name
        self.limit_s = limit_s
        self._session = Session(dsn, name, role, limit_s)
        self._stream_session = Session(dsn, f"{name} stream", role, stream_limit_s, read_only=True)
        self._close_limit_s = close_limit_s
        self._places = trio.CapacityLimiter(size)
        self._idle: deque[Link] = deque()
        self._calls: set[Call] = set()
        self._reconnect = Backoff()
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
            threaded = partial(self._work, call, work)
            try:
                return await call.in_thread(threaded, limit_s=self.limit_s, places=self._places)
            except UnavailableError:
                # The idle links lead to the same frozen, dying or demoted server: better none than those.
                self._drop_idle()
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
        self._drop_idle()
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

    # From here on: in worker threads.

    def _work(self, call: Call, work: Callable[[Connection], T]) -> T:
        """Try until it is committed or can't be: again after a conflict, and once on a fresh link."""
        conflicts = 0
        fresh = False
        while True:
            link = self._fresh(call) if fresh else self._take(call)
            try:
                return transact(link, call, work)
            except psycopg.Error as error:
                meaning = meaning_of(error, closed=link.connection.closed)
                if meaning is Meaning.THEIRS:
                    raise
                if meaning is Meaning.LOST:
                    link.close()
                if meaning is Meaning.CONFLICT and conflicts < CONFLICT_RETRIES:
                    conflicts += 1
                    time.sleep(random.uniform(0, CONFLICT_PAUSE_S * conflicts))
                elif meaning is Meaning.LOST and link.served and not fresh and not call.maybe_applied:
                    fresh = True
                else:
                    message = f"PostgreSQL broke off: {one_line(error)}"
                    raise UnavailableError(message, maybe_applied=call.maybe_applied) from error
            finally:
                self._give_back(call, link)

    def _take(self, call: Call) -> Link:
        """An idle link, the one used last; or a new one."""
        try:
            link = self._idle.pop()
        except IndexError:
            return self._fresh(call)
        return _attached(call, link)

    def _fresh(self, call: Call) -> Link:
        self._refuse_if_closed()
        self._reconnect.wait()
        try:
            link = open_link(self._session)
        except psycopg.Error as error:
            self._reconnect.failed()
            raise UnavailableError(f"PostgreSQL is out of reach: {one_line(error)}") from error
        self._reconnect.succeeded()
        return _attached(call, link)

    def _give_back(self, call: Call, link: Link) -> None:
        """Keep it for the next call if it is as good as new."""
        if not call.detach() or not link.is_clean:
            link.close()
            return
        link.served = True
        self._idle.append(link)
        if self._closed:
            self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise UnavailableError(f"pool {self.name} is closed")


def _attached(call: Call, link: Link) -> Link:
    try:
        call.attach(link)
    except BaseException:
        link.close()
        raise
    return link


class Backoff:
    """How long to wait before the next attempt to connect: not at all, or longer after each failure."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._next_at = 0.0

    def wait(self) -> None:
        time.sleep(max(0.0, self._next_at - time.monotonic()))

    def failed(self) -> None:
        self._pause_s = min(RECONNECT_MOST_S, max(RECONNECT_FIRST_S, self._pause_s * 2))
        self._next_at = time.monotonic() + self._pause_s

    def succeeded(self) -> None:
        self._pause_s = self._next_at = 0.0
