"""Columns of a batch as PostgreSQL's binary arrays, packed in one go.

psycopg adapts a list element by element, which costs more than the statement itself (29K rows a second
for uuids). A batch here is a handful of columns of one type and no nulls, so a column is packed with one
`struct` call or one join. Texts repeat a lot (states, workers, nothing at all): each is packed once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from psycopg import adapters
from psycopg.adapt import Dumper
from psycopg.pq import Format

_UUID, _UUID_ARRAY = 2950, 2951
_INT8, _INT8_ARRAY = 20, 1016
_BOOL, _BOOL_ARRAY = 16, 1000
_TEXT, _TEXT_ARRAY = 25, 1009
_HEADER = struct.Struct(">iiIii")


class Uuid:
    """One 16-byte id as a `uuid` (plain bytes would be a `bytea`)."""

    __slots__ = ("data",)

    def __init__(self, id_bytes: bytes) -> None:
        self.data = id_bytes


class _Column:
    """An array that is packed already."""

    __slots__ = ("data",)

    def __init__(self, element_oid: int, length: int, body: bytes) -> None:
        # One dimension, no nulls, lower bound 1; an empty array has no dimension at all.
        self.data = (
            _HEADER.pack(1, 0, element_oid, length, 1) + body
            if length
            else struct.pack(">iiI", 0, 0, element_oid)
        )


class Uuids(_Column):
    """A `uuid[]` of 16-byte ids."""

    __slots__ = ()

    def __init__(self, ids: Sequence[bytes]) -> None:
        prefix = b"\x00\x00\x00\x10"
        super().__init__(_UUID, len(ids), prefix + prefix.join(ids) if ids else b"")


class Bigints(_Column):
    """A `bigint[]`."""

    __slots__ = ()

    def __init__(self, numbers: Sequence[int]) -> None:
        fields: list[int] = [8] * (2 * len(numbers))
        fields[1::2] = numbers
        super().__init__(_INT8, len(numbers), struct.pack(">" + "iq" * len(numbers), *fields))


class Booleans(_Column):
    """A `boolean[]`."""

    __slots__ = ()

    def __init__(self, flags: Iterable[bool]) -> None:
        body = [b"\x00\x00\x00\x01\x01" if flag else b"\x00\x00\x00\x01\x00" for flag in flags]
        super().__init__(_BOOL, len(body), b"".join(body))


class Texts(_Column):
    """A `text[]`."""

    __slots__ = ()

    def __init__(self, texts: Sequence[str]) -> None:
        packed = {text: _sized(text.encode()) for text in set(texts)}
        super().__init__(_TEXT, len(texts), b"".join([packed[text] for text in texts]))


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _register(packed: type[Uuid] | type[_Column], type_oid: int) -> None:
    class PackedDumper(Dumper):
        format = Format.BINARY
        oid = type_oid

        def dump(self, obj: Uuid | _Column) -> bytes:
            return obj.data

    adapters.register_dumper(packed, PackedDumper)


_register(Uuid, _UUID)
_register(Uuids, _UUID_ARRAY)
_register(Bigints, _INT8_ARRAY)
_register(Booleans, _BOOL_ARRAY)
_register(Texts, _TEXT_ARRAY)
