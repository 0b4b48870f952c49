"""Many rows, batch by batch, from one read-only transaction: how a shard loads its partitions.

The batches come from a generator on a connection, which is advanced in a worker thread, one item at a time,
when the consumer asks for it. So a slow consumer holds the server back and nothing piles up here; meanwhile
the server fills the socket. A stream has a link of its own, opened for it and closed after it: its
transaction may last far longer than a call's, and a consumer that stops half-way leaves nothing to drain.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeAlias, TypeVar

import psycopg
import trio

from shardwheel.errors import UnavailableError
from shardwheel.store.call import Call
from shardwheel.store.failures import Meaning, meaning_of, one_line
from shardwheel.store.link import Connection, Link, Session, open_link

T = TypeVar("T")
Items: TypeAlias = Generator[T, None, None]


class Stream(Generic[T]):
    """An async iterator over `make(connection)`; each item has `item_limit_s` to arrive."""

    def __init__(
        self, session: Session, call: Call, make: Callable[[Connection], Items[T]], *, item_limit_s: float
    ) -> None:
        self._session = session
        self._call = call
        self._make = make
        self._item_limit_s = item_limit_s
        self._link: Link | None = None
        self._items: Items[T] | None = None
        # One thread at a time: the last one, which closes the link, comes after all others have ended.
        self._one = trio.CapacityLimiter(1)

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        for item in await self._call.in_thread(self._next, limit_s=self._item_limit_s, places=self._one):
            return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Let go of the link: cut first, so that a thread that still waits on it ends at once."""
        self._call.give_up()
        if self._link is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._close, self._link, limiter=self._one)

    def _next(self) -> list[T]:
        """The next item, or none at the end. (A list, since StopIteration can't be raised across.)"""
        try:
            if self._items is None:
                self._items = self._make(self._open())
            for item in self._items:
                return [item]
            return []
        except psycopg.Error as error:
            closed = self._link is None or self._link.connection.closed
            if meaning_of(error, closed=closed) is Meaning.THEIRS:
                raise
            raise UnavailableError(f"PostgreSQL broke off: {one_line(error)}") from error

    def _open(self) -> Connection:
        """The link is ours before the call has it: whoever gives up after that finds it here to close."""
        self._link = link = open_link(self._session)
        try:
            self._call.attach(link)
        except BaseException:
            link.close()
            raise
        return link.connection

    def _close(self, link: Link) -> None:
        """The connection first: a generator that ends while its statement runs would try to cancel it."""
        link.close()
        if self._items is not None:
            self._items.close()
