"""Which row an id has: 16-byte ids ↔ small dense numbers.

A wheel keeps what it knows in columns, and a column wants a small number for each entry: its *row*.
The register hands rows out, takes them back for the next newcomer, and finds them again by id. A row
stays the same as long as its id is registered, so that whoever keeps columns beside the wheel's (the
shard: schedules, numbers) can use it as an index.

From a row to its id: the ids lie end to end in one bytearray. From an id to its row: dicts, chosen by the
id's last bits. One dict would do, but for its growth: beyond 700,000 ids it copies itself once and stops the
tick for 64 ms; each of these is copied on its own, in less than a millisecond. (An index of our own in plain
columns took 26 bytes an id where this takes 150, and more than twice as long; see decision 5.)

    id …2f → dicts[0x2f & 63] → row 17 → ids[272:288] == id

It never iterates by hash: rows are handed out in the order of arrival, so a replay hands out the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct

import numpy as np
from numpy.typing import NDArray

ID_BYTES = 16
_DICTS = 64
_LAST_DICT = _DICTS - 1
_LAST_BYTE = ID_BYTES - 1

# Reads one id out of the bytearray as bytes: three times as fast as slicing it.
_id_at = Struct(f"{ID_BYTES}s").unpack_from


class Register:
    """Ids and their rows. Rows are dense: a new one is either a freed one or the next number."""

    __slots__ = ("_dicts", "_free", "_ids")

    def __init__(self) -> None:
        self._ids = bytearray()
        self._free = array("I")
        self._dicts: list[dict[bytes, int]] = [{} for _ in range(_DICTS)]

    def __len__(self) -> int:
        return self.rows - len(self._free)

    @property
    def rows(self) -> int:
        """How many rows were ever handed out: columns beside this one need so many cells."""
        return len(self._ids) // ID_BYTES

    def find(self, key: bytes) -> int | None:
        """The row of this id, if it is registered."""
        return self._dicts[key[_LAST_BYTE] & _LAST_DICT].get(key)

    def add(self, key: bytes) -> int:
        """The row of this id, registering it if it is new."""
        if len(key) != ID_BYTES:
            raise ValueError(f"an id has {ID_BYTES} bytes; this one has {len(key)}")
        rows = self._dicts[key[_LAST_BYTE] & _LAST_DICT]
        row = rows.get(key)
        if row is None:
            rows[key] = row = self._hand_out(key)
        return row

    def remove(self, row: int) -> None:
        """Forget the id of this row; the row goes to the next newcomer."""
        key = self.id_of(row)
        rows = self._dicts[key[_LAST_BYTE] & _LAST_DICT]
        if rows.get(key) != row:
            raise KeyError(f"row {row} is not registered")
        del rows[key]
        self._free.append(row)

    def id_of(self, row: int) -> bytes:
        """The id that was registered last under this row."""
        found: bytes = _id_at(self._ids, row * ID_BYTES)[0]
        return found

    def ids_of(self, rows: NDArray[np.int64]) -> NDArray[np.void]:
        """The same of many rows."""
        return np.frombuffer(self._ids, f"V{ID_BYTES}").take(rows)

    def find_all(self, keys: Sequence[bytes]) -> list[int | None]:
        """The row of each of these ids, if it is registered."""
        dicts = self._dicts
        return [dicts[key[_LAST_BYTE] & _LAST_DICT].get(key) for key in keys]

    def load(self, keys: Sequence[bytes]) -> list[int]:
        """The same as `add` of each, in this order, with one growth of the ids for all that are new."""
        if {*map(len, keys)} - {ID_BYTES}:
            raise ValueError(f"an id has {ID_BYTES} bytes; one of these has not")
        dicts, next_row = self._dicts, self.rows
        rows: list[int] = []
        new: list[bytes] = []
        for key in keys:
            known = dicts[key[_LAST_BYTE] & _LAST_DICT]
            row = known.get(key)
            if row is None:
                if self._free:
                    row = self._hand_out(key)
                else:
                    row = next_row + len(new)
                    new.append(key)
                known[key] = row
            rows.append(row)
        self._ids += b"".join(new)
        return rows

    def _hand_out(self, key: bytes) -> int:
        ids = self._ids
        if self._free:
            row = self._free.pop()
            ids[row * ID_BYTES : (row + 1) * ID_BYTES] = key
            return row
        ids += key
        return len(ids) // ID_BYTES - 1
