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

Columns are of unsigned numbers: Python's array stores those almost twice as fast as signed ones.
"""

from __future__ import annotations

from array import array

from shardwheel.wheel.level import LAST_SLOT, LATE

# Both are below 2^30: up to there, Python compares and adds twice as fast.
SLOT = 1 << 29
# Stands in `previous` for a row that is in no slot.
OUT = (1 << 30) - 1

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
        """Move up to so many rows, first come first, from a slot to those of a finer ring; how many.

        Linking a row to the end of a slot is written out here and in `Rings.put`: a call would cost as
        much as the linking.
        """
        due_ms, following, previous = self.due_ms, self.next, self.previous
        first, last, occupied = self.first, self.last, self.occupied
        row = first[slot]
        moved = 0
        while row < SLOT and moved < most:
            after = following[row]
            target = base + (due_ms[row] >> shift & LAST_SLOT)
            tail = last[target]
            previous[row] = tail
            following[row] = SLOT + target
            last[target] = row
            if tail < SLOT:
                following[tail] = row
            else:
                first[target] = row
                occupied[target] = 1
            row = after
            moved += 1
        if row < SLOT:
            first[slot] = row
            previous[row] = SLOT + slot
        else:
            last[slot] = SLOT + slot
            occupied[slot] = 0
        return moved

    def in_slot(self, slot: int) -> list[int]:
        """The rows of a slot, left where they are."""
        rows = []
        row = self.first[slot]
        while row < SLOT:
            rows.append(row)
            row = self.next[row]
        return rows
