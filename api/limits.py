"""What comes in, within limits: the body while it streams, its JSON, the words of the query.

Nothing is unpacked (a small packed body may become a huge one), nothing is read beyond its limit, and all
bodies together have a limit too, as bytes and as what their JSON becomes: a byte of `[[],[],[],…]` becomes
more than twenty. Memory must not run out before somebody says 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, overload
from urllib.parse import parse_qsl

import msgspec

from shardwheel.errors import TooLargeError, UnavailableError, UsageError
from shardwheel.nesting import MOST_LEVELS, is_deeper
from shardwheel.posting import PARAMS_LIMIT_BYTES
from shardwheel.times import parse_time, refuse

# Params may be written with escapes, and the other fields want room.
ONE_LIMIT_BYTES = 3 * PARAMS_LIMIT_BYTES
BATCH_LIMIT_BYTES = 16 * 1024 * 1024
ALL_LIMIT_BYTES = 128 * 1024 * 1024
ALL_DECODED_BYTES = 512 * 1024 * 1024
BODY_LIMIT_S = 10.0
QUERY_LIMIT_BYTES = 4_096
LONGEST_WORD = 200
MOST_ITEMS = 200
# Around params there are a job, its DAG's tasks, a batch.
MOST_NESTED = MOST_LEVELS + 4


class Intake:
    """Reads bodies. `held` is what all requests under way hold together, `decoded` what that may become."""

    def __init__(self) -> None:
        self._held = 0
        self._decoded = 0

    @asynccontextmanager
    async def body(
        self, headers: Mapping[str, str], chunks: AsyncIterator[bytes], limit: int
    ) -> AsyncIterator[bytes]:
        _refuse_packed(headers)
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > limit:
            raise _too_large(limit)
        body, decoded_bytes = bytearray(), 0
        try:
            async with asyncio.timeout(BODY_LIMIT_S):
                async for chunk in chunks:
                    body += chunk
                    self._hold(len(chunk))
                    if len(body) > limit:
                        raise _too_large(limit)
            whole = bytes(body)
            decoded_bytes = self._decode(whole)
            yield whole
        except TimeoutError:
            raise UsageError(f"body: did not arrive within {BODY_LIMIT_S:g} s", field="body") from None
        finally:
            self._held -= len(body)
            self._decoded -= decoded_bytes

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > ALL_LIMIT_BYTES:
            raise _too_many()

    def _decode(self, body: bytes) -> int:
        """Make room for what this becomes; the largest that may come has room when it comes alone."""
        size = decoded_size(body)
        if self._decoded and self._decoded + size > ALL_DECODED_BYTES:
            raise _too_many()
        self._decoded += size
        return size


def decoded_size(body: bytes) -> int:
    """At most so many bytes are the objects that this JSON becomes. What counts the brackets and commas takes
    those in texts for more; but nothing becomes more than thirty times as large."""
    told = len(body) + 80 * body.count(b"[") + 208 * body.count(b"{") + 112 * body.count(b",")
    return min(told, 30 * len(body))


def decoded(body: bytes) -> Any:
    """The JSON value. What JSON does not know (NaN, lone surrogates) and deep nests are refused."""
    try:
        value = msgspec.json.decode(body)
        too_deep = is_deeper(value, MOST_NESTED)
    except RecursionError:
        too_deep = True
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        refuse("body", f"is not JSON: {error}", "send one JSON value in UTF-8")
    if too_deep:
        refuse("body", "is nested too deep", f"make it flatter: params may have {MOST_LEVELS} levels")
    return value


class Query:
    """The words after the question mark: only known ones, each once."""

    def __init__(self, raw: bytes, known: Iterable[str]) -> None:
        if len(raw) > QUERY_LIMIT_BYTES:
            refuse("query", f"has {len(raw)} bytes", f"give at most {QUERY_LIMIT_BYTES}")
        names = tuple(known)
        self._words: dict[str, str] = {}
        for name, word in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
            if name not in names:
                hint = f"known are: {', '.join(names)}" if names else "this route takes none"
                refuse(name[:LONGEST_WORD], "there is no such parameter", hint)
            if name in self._words:
                refuse(name, "is given twice", "give it once")
            self._words[name] = _checked(name, word)

    @overload
    def text(self, name: str) -> str | None: ...
    @overload
    def text(self, name: str, default: str) -> str: ...
    def text(self, name: str, default: str | None = None) -> str | None:
        """The word, or what holds where none is given; an empty one is given."""
        return self._words.get(name, default)

    def number(self, name: str, default: int, most: int) -> int:
        word = self._words.get(name)
        if word is None:
            return default
        if not (word.isascii() and word.isdecimal() and len(word) < 10 and 1 <= int(word) <= most):
            refuse(name, f"{word!r:.40} is not a number in range", f"give 1 to {most}")
        return int(word)

    def limit(self) -> int:
        return self.number("limit", 100, MOST_ITEMS)

    def time_ms(self, name: str) -> int | None:
        word = self._words.get(name)
        return None if word is None else parse_time(word, name)


def _checked(name: str, word: str) -> str:
    if len(word) > LONGEST_WORD:
        refuse(name, f"has {len(word)} characters", f"give at most {LONGEST_WORD}")
    if "\0" in word:
        refuse(name, "has a NUL character", "take it out")
    return word


def _refuse_packed(headers: Mapping[str, str]) -> None:
    packing = headers.get("content-encoding", "identity")
    if packing.lower() != "identity":
        refuse("content-encoding", f"{packing!r:.40} is not accepted", "send the body as it is")


def _too_many() -> UnavailableError:
    return UnavailableError("too many large requests at once; try again in a moment")


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"body: has more than {limit} bytes; send less at a time", field="body")
