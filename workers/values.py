"""What handlers hand over, made fit to be stored: JSON that PostgreSQL takes, texts without what it refuses.

A handler may return, log or raise anything. One value that can't be encoded, or that PostgreSQL refuses (a
NUL character, half of a surrogate pair), must fail its own attempt, never the batch that it travels in.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.errors import UsageError
from shardwheel.jsonb import has_nul
from shardwheel.nesting import MOST_LEVELS, is_deeper


def encode_json(what: str, value: Any, most_bytes: int) -> bytes:
    """The value as JSON, or a `UsageError` that names it."""
    try:
        # Twice, since a `Raw` anywhere in it goes through the first one as it is.
        data = msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(value)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"{what}: it can't be written as JSON: {error}", field=what) from error
    require_storable(what, data, most_bytes)
    return data


def require_storable(what: str, data: bytes, most_bytes: int) -> None:
    """Refuse JSON that can't be stored, that somebody can't read, or that is larger than it may be."""
    if len(data) > most_bytes:
        raise UsageError(
            f"{what}: it has {len(data)} bytes; at most {most_bytes} are kept: store it elsewhere and keep a "
            "reference",
            field=what,
        )
    if _is_too_deep(data):
        raise UsageError(
            f"{what}: it is nested deeper than {MOST_LEVELS} levels: make it flatter", field=what
        )
    if has_nul(data):
        raise UsageError(f"{what}: it holds a NUL character, which can't be stored: leave it out", field=what)


def _is_too_deep(data: bytes) -> bool:
    if data.count(b"[") + data.count(b"{") <= MOST_LEVELS:
        return False
    try:
        return is_deeper(msgspec.json.decode(data))
    except RecursionError:
        return True


def storable_text(text: str, most: int) -> str:
    """The text without what can't be stored; of a longer one the beginning."""
    if len(text) > most:
        text = text[: most - 1] + "…"
    return text.replace("\0", "").encode(errors="replace").decode()
