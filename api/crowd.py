"""How many clients there may be at once, and how much of their answers may wait for them.

File descriptors and memory must not run out before somebody is refused: PostgreSQL's connections and the
token's keys want descriptors too. Whoever comes when all places are taken is told when to come again;
when even those places are taken, the line is cut without a word. Nobody is refused for answers that wait: the
one who has let us wait the longest is cut off instead, so that slow readers can't lock out the others.
"""

from __future__ import annotations

import resource
from collections.abc import Awaitable, Callable, Hashable
from enum import Enum
from functools import cache
from typing import Any

from shardwheel.api.errors import Refusal

MOST_CONNECTIONS = 8_192
# Beyond them so many hear why.
MOST_REFUSED = 64
# Descriptors for PostgreSQL, etcd, logs and what comes along.
RESERVED_FILES = 128
MOST_UNREAD_BYTES = 256 * 1024 * 1024
FULL = Refusal(503, "unavailable", "too many connections at once; try again in a moment")


class Place(Enum):
    SERVED = "served"
    REFUSED = "refused"
    NONE = "none"


@cache
def most_connections() -> int:
    """As many as this process may have open, once it has asked for what it may have at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + MOST_REFUSED + RESERVED_FILES
    if soft < wanted and soft != resource.RLIM_INFINITY:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)
    return max(1, room - MOST_REFUSED - RESERVED_FILES)


def place_of(connections: int) -> Place:
    """What becomes of the newest of so many."""
    if connections <= most_connections():
        return Place.SERVED
    return Place.REFUSED if connections <= most_connections() + MOST_REFUSED else Place.NONE


async def refuse(scope: Any, receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """An application for whoever has no place: whatever the request is, later."""
    body = FULL.body()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    encoded = [(name.encode(), value.encode()) for name, value in (headers | FULL.headers()).items()]
    await send({"type": "http.response.start", "status": FULL.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": False})


class Unread:
    """Answers that wait for their clients, the longest wait first."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._bytes = 0

    def add(self, client: Hashable, size: int, cut: Callable[[], None]) -> None:
        self.discard(client)
        self._waiting[client] = size, cut
        self._bytes += size
        while self._bytes > MOST_UNREAD_BYTES:
            longest = next(iter(self._waiting))
            _, cut_off = self._waiting[longest]
            self.discard(longest)
            cut_off()

    def discard(self, client: Hashable) -> None:
        size, _ = self._waiting.pop(client, (0, None))
        self._bytes -= size


# One for the process, as its memory is.
UNREAD = Unread()
