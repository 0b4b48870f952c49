"""Who listens to `/events`, and what they are told: one look a second for all listeners of a tenant.

A tenant that nobody listens to costs nothing. What a slow listener has not read is bounded: beyond that the
stream ends, and the client comes again with the last id it has. The last 1,000 events of a tenant are kept
for that until half a minute after the last listener: best effort, in this process only.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from shardwheel.errors import LimitedError, UnavailableError
from shardwheel.records import View
from shardwheel.roles import Role
from shardwheel.store.news import News, read_news
from shardwheel.store.tenant_pool import TenantPool

LOOK_S = 1.0
LOOKS_ALONE = 30
MOST_LISTENERS = 500
MOST_OF_TENANT = 20
MOST_UNREAD = 1_000
MOST_KEPT = 1_000
MOST_SEEN = 20_000


class Event(NamedTuple):
    """`role`: the least that may hear of it."""

    id: str
    kind: str
    data: Any
    role: Role = Role.VIEWER


Listener = asyncio.Queue[Event | None]


class Tale:
    """What is told to one tenant's listeners. `take` is given what each look finds, and tells what is new;
    once it is `ready`, all that happens is told."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.kept: deque[Event] = deque(maxlen=MOST_KEPT)
        self.ready = asyncio.Event()
        self._name = secrets.token_hex(4)
        self._number = 0
        self._seen: dict[tuple[str, str], None] | None = None
        self._held: dict[str, int] = {}
        self._shards: set[str] | None = None

    def take(self, news: News, view: View | None) -> None:
        first = self._seen is None
        seen = self._seen if self._seen is not None else {}
        self._seen = seen
        for item in news.items:
            if (item.kind, item.id) not in seen:
                seen[item.kind, item.id] = None
                if not first:
                    self._tell(item.kind, item.data)
        while len(seen) > MOST_SEEN:
            del seen[next(iter(seen))]
        if news.held != self._held and not first:
            self._tell("held", news.held)
        self._held = news.held
        self._take_shards(view)
        self.ready.set()

    def _take_shards(self, view: View | None) -> None:
        if view is None:
            return
        shards = set(view.members)
        for kind, names in (
            ("shard_joined", shards - (self._shards or shards)),
            ("shard_left", (self._shards or shards) - shards),
        ):
            for name in sorted(names):
                self._tell(kind, {"id": name}, Role.OPERATOR)
        self._shards = shards

    def _tell(self, kind: str, data: Any, role: Role = Role.VIEWER) -> None:
        self._number += 1
        event = Event(f"{self._name}-{self._number}", kind, data, role)
        self.kept.append(event)
        for listener in list(self.listeners):
            self._hand(listener, event)

    def _hand(self, listener: Listener, event: Event) -> None:
        if listener.qsize() >= MOST_UNREAD:
            self.listeners.discard(listener)
            listener.put_nowait(None)
        else:
            listener.put_nowait(event)

    def since(self, last_id: str) -> list[Event] | None:
        """What was told after this one; None if that is not known any more."""
        ids = [event.id for event in self.kept]
        return list(self.kept)[ids.index(last_id) + 1 :] if last_id in ids else None

    def end(self) -> None:
        self.ready.set()
        for listener in self.listeners:
            listener.put_nowait(None)


class Telling:
    """All tenants' tales. Belongs to the HTTP server's event loop."""

    def __init__(
        self, pool: TenantPool, look: Callable[[], View | None], is_stopping: Callable[[], bool]
    ) -> None:
        self._pool = pool
        self._look = look
        self._is_stopping = is_stopping
        self._tales: dict[str, Tale] = {}
        self._tellers: dict[str, asyncio.Task[None]] = {}

    def admit(self, tenant: str) -> None:
        """Refuse one listener too many."""
        if sum(len(tale.listeners) for tale in self._tales.values()) >= MOST_LISTENERS:
            raise UnavailableError("too many listen; try again later")
        if tenant in self._tales and len(self._tales[tenant].listeners) >= MOST_OF_TENANT:
            raise LimitedError(f"{MOST_OF_TENANT} of this tenant listen already; end one of them")

    @asynccontextmanager
    async def listening(self, tenant: str) -> AsyncIterator[tuple[Tale, Listener]]:
        self.admit(tenant)
        tale = self._tales.setdefault(tenant, Tale())
        listener: Listener = asyncio.Queue()
        tale.listeners.add(listener)
        if tenant not in self._tellers:
            self._tellers[tenant] = asyncio.create_task(self._tell(tenant, tale))
        try:
            yield tale, listener
        finally:
            tale.listeners.discard(listener)

    async def _tell(self, tenant: str, tale: Tale) -> None:
        """While somebody listens, and a while longer: who was cut off comes again. PostgreSQL away: the next
        look tells."""
        try:
            alone = 0
            while alone < LOOKS_ALONE and not self._is_stopping():
                with suppress(UnavailableError):
                    tale.take(await self._pool.run(tenant, read_news), self._look())
                await asyncio.sleep(LOOK_S)
                alone = 0 if tale.listeners else alone + 1
        finally:
            tale.end()
            del self._tales[tenant], self._tellers[tenant]
