"""Which row an id has: 16-byte ids ↔ small dense numbers, in about 26 bytes an id.

A wheel keeps what it knows in columns, and a column wants a small number for each entry: its *row*.
The register hands rows out, takes them back for the next newcomer, and finds them again by id. A row
stays the same as long as its id is registered, so that whoever keeps columns beside the wheel's (the
shard: schedules, numbers) can use it as an index.

Why not a dict? `{bytes: int}` costs 139 bytes an id (64 the bytes object, 32 the int, 43 the table), a
third of what a whole job may cost, and its growth beyond 700,000 stops the tick for 64 ms. Here the ids
lie end to end in one bytearray, and an index of 4-byte cells points into them: an extendible hash, as
in a file system's directories. A *page* has 512 cells, probed one after the other; the low bits of an
id's hash choose the page, its high bits the first cell to probe. A page that is three quarters full is
split in four by the next two bits, and nothing else moves: no insert ever costs more than one split.

    hash …0110 → directory[0b0110 & 0b11] → page 2 → cells: … -, 17, 4, - …
                                                                 └ row 17: ids[272:288] == id? found

It never iterates by hash: rows are handed out in the order of arrival, so a replay hands out the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct

ID_BYTES = 16
_CELLS = 512
_LAST_CELL = _CELLS - 1
_FULL = _CELLS * 3 // 4
_EMPTY = (1 << 30) - 1
_BITS_A_SPLIT = 2
_PARTS = 1 << _BITS_A_SPLIT
_LAST_PART = _PARTS - 1

# Reads one id out of the bytearray as bytes: three times as fast as slicing it.
_id_at = Struct(f"{ID_BYTES}s").unpack_from


class _Page:
    """512 cells, each a row or empty; its ids agree in the lowest `depth` bits of their hashes."""

    __slots__ = ("cells", "depth", "filled")

    def __init__(self, depth: int) -> None:
        self.cells = array("I", [_EMPTY]) * _CELLS
        self.depth = depth
        self.filled = 0


class Register:
    """Ids and their rows. Rows are dense: a new one is either a freed one or the next number."""

    __slots__ = ("_directory", "_free", "_ids", "_mask")

    def __init__(self) -> None:
        self._ids = bytearray()
        self._free = array("I")
        self._directory = [_Page(0)]
        self._mask = 0

    def __len__(self) -> int:
        return self.rows - len(self._free)

    @property
    def rows(self) -> int:
        """How many rows were ever handed out: columns beside this one need so many cells."""
        return len(self._ids) // ID_BYTES

    def find(self, key: bytes) -> int | None:
        """The row of this id, if it is registered."""
        hashed = hash(key)
        cells = self._directory[hashed & self._mask].cells
        cell = hashed >> 32 & _LAST_CELL
        ids = self._ids
        while (row := cells[cell]) != _EMPTY:
            if _id_at(ids, row * ID_BYTES)[0] == key:
                return row
            cell = (cell + 1) & _LAST_CELL
        return None

    def add(self, key: bytes) -> int:
        """The row of this id, registering it if it is new."""
        if len(key) != ID_BYTES:
            raise ValueError(f"an id has {ID_BYTES} bytes; this one has {len(key)}")
        hashed = hash(key)
        page = self._directory[hashed & self._mask]
        cells = page.cells
        cell = hashed >> 32 & _LAST_CELL
        ids = self._ids
        while (row := cells[cell]) != _EMPTY:
            if _id_at(ids, row * ID_BYTES)[0] == key:
                return row
            cell = (cell + 1) & _LAST_CELL
        cells[cell] = row = self._hand_out(key)
        page.filled += 1
        if page.filled > _FULL:
            self._split(page, hashed)
        return row

    def remove(self, row: int) -> None:
        """Forget the id of this row; the row goes to the next newcomer."""
        hashed = hash(self.id_of(row))
        page = self._directory[hashed & self._mask]
        cells = page.cells
        cell = hashed >> 32 & _LAST_CELL
        while cells[cell] != row:
            if cells[cell] == _EMPTY:
                raise KeyError(f"row {row} is not registered")
            cell = (cell + 1) & _LAST_CELL
        self._close_gap(cells, cell)
        page.filled -= 1
        self._free.append(row)

    def id_of(self, row: int) -> bytes:
        """The id that was registered last under this row."""
        found: bytes = _id_at(self._ids, row * ID_BYTES)[0]
        return found

    def load(self, keys: Sequence[bytes]) -> list[int]:
        """Register many ids at once, in this order; the index is made large enough beforehand."""
        self._reserve(len(self) + len(keys))
        return [self.add(key) for key in keys]

    def _hand_out(self, key: bytes) -> int:
        ids = self._ids
        if self._free:
            row = self._free.pop()
            ids[row * ID_BYTES : (row + 1) * ID_BYTES] = key
            return row
        ids += key
        return len(ids) // ID_BYTES - 1

    def _first_cell(self, row: int) -> int:
        return hash(self.id_of(row)) >> 32 & _LAST_CELL

    def _close_gap(self, cells: array[int], gap: int) -> None:
        """Empty a cell, moving back what was probed past it: no probe may meet a hole too early."""
        cell = gap
        while (row := cells[cell := (cell + 1) & _LAST_CELL]) != _EMPTY:
            # The row may move if its way from its first cell to here leads over the gap.
            if (cell - self._first_cell(row) & _LAST_CELL) >= (cell - gap & _LAST_CELL):
                cells[gap] = row
                gap = cell
        cells[gap] = _EMPTY

    def _split(self, page: _Page, hashed: int) -> None:
        """Four pages in the place of a full one; the directory grows if it can't tell them apart."""
        depth = page.depth
        if 1 << depth == len(self._directory):
            self._directory *= _PARTS
            self._mask = len(self._directory) - 1
        parts = [_Page(depth + _BITS_A_SPLIT) for _ in range(_PARTS)]
        for row in page.cells:
            if row != _EMPTY:
                hashed_row = hash(_id_at(self._ids, row * ID_BYTES)[0])
                part = parts[hashed_row >> depth & _LAST_PART]
                cells, cell = part.cells, hashed_row >> 32 & _LAST_CELL
                while cells[cell] != _EMPTY:
                    cell = (cell + 1) & _LAST_CELL
                cells[cell] = row
                part.filled += 1
        alike = (1 << depth) - 1
        for place in range(hashed & alike, len(self._directory), 1 << depth):
            self._directory[place] = parts[place >> depth & _LAST_PART]

    def _reserve(self, ids: int) -> None:
        """Of an empty register: make so many pages that this many ids fit without splits."""
        if len(self) or ids <= _FULL:
            return
        depth = 0
        while (ids * 3 // 2 // _FULL) >> depth:
            depth += _BITS_A_SPLIT
        self._directory = [_Page(depth) for _ in range(1 << depth)]
        self._mask = len(self._directory) - 1
