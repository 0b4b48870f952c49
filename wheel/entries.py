"""The wheel's memory: columns with one cell a row, threaded into one list a slot.

There is no object for an entry, only its row: when it is due, which rows stand before and after it in
its slot, and its kind. So an entry costs 17 bytes here, linking and unlinking allocate nothing, and
Python's collector has nothing to walk, however many entries are held.

A link is a number: below `SLOT` the row that follows (or precedes), from `SLOT` on the slot itself,
where the list ends. Rows 7 and 2 in slot 5:

    first[5] = 7    next[7] = 2         next[2] = SLOT + 5
    last[5] = 2     previous[2] = 7     previous[7] = SLOT + 5      occupied[5] = 1

An empty slot has last[5] = SLOT + 5 and occupied[5] = 0; its `first` means nothing then, as does `next` of
a row that is in no slot.

Columns are of unsigned numbers: Python's array stores those almost twice as fast as signed ones. What is done
with one row reads and writes the arrays themselves, three times as fast as numpy would; what is done with
many at once goes through numpy's views of the same memory. A view lives no longer than a call: an array that
somebody looks into can't grow.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardwheel.wheel.level import LAST_SLOT, LATE

# Both are below 2^30: up to there, Python compares and adds twice as fast.
SLOT = 1 << 29
# Stands in `previous` for a row that is in no slot.
OUT = (1 << 30) - 1

Rows: TypeAlias = NDArray[np.int64]
Times: TypeAlias = NDArray[np.int64]
Slots: TypeAlias = NDArray[np.int64]

_ZERO = np.zeros(1, np.int64)
_SLOTS = LATE + 1
_SMALLEST_GROWTH = 64


class Entries:
    """The columns and the lists."""

    __slots__ = ("due_ms", "first", "kinds", "last", "next", "occupied", "previous")

    def __init__(self) -> None:
        self.due_ms = array("Q")
        self.kinds = bytearray()
        self.next = array("I")
        self.previous = array("I")
        self.first = array("I", range(SLOT, SLOT + _SLOTS))
        self.last = array("I", range(SLOT, SLOT + _SLOTS))
        self.occupied = bytearray(_SLOTS)

    def grow(self, rows: int) -> None:
        """Make room for at least so many rows, and an eighth more: growing is rare."""
        missing = rows - len(self.due_ms)
        if missing > 0:
            more = max(missing, rows // 8, _SMALLEST_GROWTH)
            self.due_ms.frombytes(bytes(more * self.due_ms.itemsize))
            self.kinds.extend(bytes(more))
            self.next.extend(array("I", [OUT]) * more)
            self.previous.extend(array("I", [OUT]) * more)

    def unlink(self, row: int) -> None:
        """Take a row out of the slot in which it is, wherever it stands there."""
        before = self.previous[row]
        after = self.next[row]
        if before < SLOT:
            self.next[before] = after
        else:
            self.first[before - SLOT] = after
        if after < SLOT:
            self.previous[after] = before
        else:
            self.last[after - SLOT] = before
            # The list is empty if what stands before its end is its own beginning.
            if before == after:
                self.occupied[after - SLOT] = 0
        self.previous[row] = OUT

    def take(self, begin: int, end: int, rows: list[int]) -> None:
        """Take all rows out of the slots begin … end - 1, slot by slot, each in the order of arrival."""
        following, previous, first, occupied = self.next, self.previous, self.first, self.occupied
        slot = occupied.find(1, begin, end)
        while slot >= 0:
            row = first[slot]
            while row < SLOT:
                rows.append(row)
                previous[row] = OUT
                row = following[row]
            self.last[slot] = SLOT + slot
            occupied[slot] = 0
            slot = occupied.find(1, slot + 1, end)

    def pour(self, slot: int, base: int, shift: int, most: int) -> int:
        """Move up to so many rows, first come first, from a slot to those of a finer ring; how many."""
        following = self.next
        row = self.first[slot]
        rows: list[int] = []
        while row < SLOT and len(rows) < most:
            rows.append(row)
            row = following[row]
        if row < SLOT:
            self.first[slot] = row
            self.previous[row] = SLOT + slot
        else:
            self.last[slot] = SLOT + slot
            self.occupied[slot] = 0
        poured = np.array(rows, np.int64)
        self.link(poured, base + (self.dues_of(poured) >> shift & LAST_SLOT))
        return len(rows)

    def link(self, rows: Rows, slots: Slots) -> None:
        """Put each of these rows, which are in no slot and of which there is one at least, at the end of its
        slot, in this order. Rows of one slot are brought together, so that each is the other's neighbour, and
        only the first and the last of them meet what was there before. One row alone: see `Rings.put`."""
        order = slots.argsort(kind="stable")
        rows, slots = rows.take(order), slots.take(order)
        # Where another slot's rows begin; the places before these are where they end.
        begins = np.flatnonzero(slots[1:] != slots[:-1]) + 1
        begins = np.concatenate((_ZERO, begins))
        ends = np.concatenate((begins[1:], [len(rows)])) - 1
        heads, filled = rows.take(begins), slots.take(begins)
        last, following, previous = _view(self.last), _view(self.next), _view(self.previous)
        tails = last.take(filled)
        previous[rows[1:]] = rows[:-1]
        following[rows[:-1]] = rows[1:]
        previous[heads] = tails
        following[rows.take(ends)] = filled + SLOT
        last[filled] = rows.take(ends)
        joins = tails < SLOT
        following[tails[joins]] = heads[joins]
        opens = ~joins
        _view(self.first)[filled[opens]] = heads[opens]
        np.frombuffer(self.occupied, np.uint8)[filled] = 1

    def dues_of(self, rows: Rows) -> Times:
        """When these rows are due."""
        return np.frombuffer(self.due_ms, np.int64).take(rows)

    def set_dues(self, rows: Rows, dues_ms: Times) -> None:
        np.frombuffer(self.due_ms, np.int64)[rows] = dues_ms

    def linked(self, rows: Rows) -> Rows:
        """Those of the rows that are in a slot."""
        return rows.compress(_view(self.previous)[rows] != OUT)

    def dues_between(self, from_ms: int, to_ms: int, rows: slice) -> Times:
        """When those of the rows are due that are in a slot, and due in this span."""
        dues_ms: Times = np.frombuffer(self.due_ms, np.int64)[rows]
        is_held = _view(self.previous)[rows] != OUT
        return dues_ms.compress(is_held & (dues_ms >= from_ms) & (dues_ms < to_ms))

    def in_slot(self, slot: int) -> list[int]:
        """The rows of a slot, left where they are."""
        rows = []
        row = self.first[slot]
        while row < SLOT:
            rows.append(row)
            row = self.next[row]
        return rows


def _view(column: array[int]) -> NDArray[np.uint32]:
    return np.frombuffer(column, np.uint32)
