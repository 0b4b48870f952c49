"""Whoever asks for much takes turns: pages of lists, whole DAGs.

Such an answer takes long where a filter finds little, and its rows may become hundreds of megabytes of
objects on their way to JSON. So only some are made at a time: memory holds, and connections to PostgreSQL are
left for those who store a job or ask how one stands. They go in the order in which they came; who would wait
too long is told to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardwheel.errors import UnavailableError

MOST_AT_ONCE = 3
MOST_WAITING = 200
WAIT_LIMIT_S = 10.0


class Turns:
    """Belongs to the HTTP server's event loop."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._places = asyncio.Semaphore(most)
        self._waiting = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """The answer is to be made inside, all of it."""
        if self._waiting >= MOST_WAITING:
            raise _too_many()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_LIMIT_S):
                await self._places.acquire()
        except TimeoutError:
            raise _too_many() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()


def _too_many() -> UnavailableError:
    return UnavailableError("too many ask for lists or DAGs at once; try again in a moment")
