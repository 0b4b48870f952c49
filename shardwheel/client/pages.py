"""Where one is in a list of several pages. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from shardwheel.client.method import Listing, Query

MOST_OF_PAGE = 200
T = TypeVar("T")


class Page(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...]
    next_cursor: str | None = None


class Pages(Generic[T]):
    """Asks for no more than is wanted, page after page."""

    def __init__(self, wanted: Listing[T]) -> None:
        self._wanted = wanted
        self.path = wanted.path
        self._cursor: str | None = None
        self._taken = 0
        self.wants_more = wanted.limit != 0

    def query(self) -> Query:
        wanted = self._wanted
        if not wanted.paged:
            return wanted.query
        left = MOST_OF_PAGE if wanted.limit is None else wanted.limit - self._taken
        cursor: Query = {} if self._cursor is None else {"cursor": self._cursor}
        return wanted.query | cursor | {"limit": min(MOST_OF_PAGE, left)}

    def take(self, page: Page) -> list[T]:
        self._cursor = page.next_cursor
        self._taken += len(page.items)
        self.wants_more = page.next_cursor is not None and self._taken != self._wanted.limit
        return [msgspec.json.decode(item, type=self._wanted.kind) for item in page.items]
