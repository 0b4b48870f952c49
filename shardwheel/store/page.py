"""A page of a list: its items as they are read by people, and where the next page goes on.

A cursor is opaque to whoever gets it: it names the last item of a page, so that a list goes on where it
stopped whatever was added or removed meanwhile. Never an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from shardwheel.ids import id_of
from shardwheel.times import refuse

Row = TypeVar("Row")
MOST_ITEMS = 200


class Page(NamedTuple):
    items: list[dict[str, Any]]
    next_cursor: str | None


def page_of(
    rows: Sequence[Row], limit: int, shown: Callable[[Row], dict[str, Any]], cursor: Callable[[Row], str]
) -> Page:
    """A page of at most `limit` items, of rows read with one more, which tells whether it goes on."""
    kept = rows[:limit]
    return Page([shown(row) for row in kept], cursor(kept[-1]) if len(rows) > limit else None)


def checked_limit(limit: int) -> int:
    """How many rows to read for a page of so many items: one more."""
    if not 1 <= limit <= MOST_ITEMS:
        refuse("limit", f"{limit} is out of range", f"give 1 to {MOST_ITEMS}")
    return limit + 1


def id_of_cursor(cursor: str) -> bytes:
    return id_of(cursor, field="cursor")


def number_of_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        refuse("cursor", f"{cursor!r:.80} is none of ours", "copy it as it was given")
    return int(cursor)
