"""The hierarchical timing wheel: a million entries, and a tick costs what is due.

A wheel is told the time and never asks for it: `advance(now_ms)` returns what became due since the last
call, in due order. It does no I/O, reads no clock, waits for nothing and logs nothing.

Why not a heap? A heap pays log n at every insert and every pop, in cache misses all over a million
entries, and can't cancel. A wheel throws an entry into the slot of its time, and only looks at a slot
when its time has come. One ring with a slot for each millisecond of the years ahead would be too long,
so there are five rings (`level.py`), and an entry sits in the finest one that reaches as far as its
time. As that time draws near, its slot is *poured* into the ring below, where slots are 512 times finer;
in the end it lies in a slot of one millisecond.

A worked example, with the first three levels (slots of 1 ms, 0.512 s and 4.4 min), at time 0:

    insert(a, 300)        level 0, slot 300
    insert(b, 60_000)     level 1, slot 117 (59,904 … 60,415): beyond level 0's limit
    insert(c, 3_600_000)  level 2, slot 13 (3,407,872 … 3,670,015): beyond level 1's limit
    advance(300)          → [a]       one slot looked at; b and c were not touched
    advance(59_400)       → []        level 0 now has room for slot 117: prepare(100) pours it, and
                                      b lies in level 0, slot 60,000 mod 1,024 = 608
    advance(59_999)       → []        never early, not by a millisecond
    advance(60_000)       → [b]
    reschedule(c, 60_500) c leaves its slot, wherever it lies, and goes straight into level 0 or 1
    advance(31_536_000_000)           a year in one go: five rings are searched for occupied slots,
                          → [c]       whole ones come out sorted, a slot cut by "now" is poured

`prepare(most)` pours ahead of need, at most so many entries a call, while time runs towards them; it
changes nothing but how long the next `advance` takes. Without it, `advance` pours at the border, at once
(`rings.py` says how).

Entries with the same due time come out in the order in which they were inserted or moved. An entry that
is late when it comes (due ≤ `stand_ms`) comes out at the next advance, before all others.

Keys are 16-byte ids; rows are what the register makes of them, and the quick way in for whoever keeps
columns beside the wheel's. After `advance`, a row belongs to the caller, who gives it its next time
(`put`, or `put_many` for all of them) or gives it back (`release`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardwheel.wheel.entries import OUT, Rows, Times
from shardwheel.wheel.register import Register
from shardwheel.wheel.rings import Rings, check_due

# The two kinds of entry: a job stands at its next fire time, a waiting execution at its own due time.
JOB = 0
WAITING = 1


class Wheel(Rings):
    """The rings, and a register of who is who.

    From the rings it has `put`, `put_many`, `advance`, `prepare`, `next_due`, `len`, and to be read:
    `stand_ms`, `wake_ms`, and `due_ms` with the due time of each row.
    """

    __slots__ = ("register",)

    def __init__(self, stand_ms: int) -> None:
        super().__init__(stand_ms)
        self.register = Register()

    def __contains__(self, key: bytes) -> bool:
        """Whether this entry waits for its time."""
        row = self.register.find(key)
        return row is not None and self._previous[row] != OUT

    def insert(self, key: bytes, due_ms: int, kind: int = JOB) -> int:
        """Add an entry, or move it if it is here already; returns its row."""
        check_due(due_ms)
        row = self.register.add(key)
        if row >= len(self.due_ms):
            self._entries.grow(row + 1)
        self._entries.kinds[row] = kind
        self.put(row, due_ms)
        return row

    def cancel(self, key: bytes) -> bool:
        """Remove an entry and forget its id; false if it is unknown."""
        row = self.register.find(key)
        if row is None:
            return False
        self.release(row)
        return True

    def reschedule(self, key: bytes, due_ms: int) -> bool:
        """Give an entry another time; false if it is unknown."""
        row = self.register.find(key)
        if row is None:
            return False
        self.put(row, due_ms)
        return True

    def load(self, keys: Sequence[bytes], dues_ms: ArrayLike, kind: int = JOB) -> list[int]:
        """Add many entries at once, each id once; returns their rows in the same order."""
        times_ms = np.asarray(dues_ms, np.int64)
        if len(keys) != len(times_ms):
            raise ValueError(f"{len(keys)} keys need as many due times, not {len(times_ms)}")
        if not keys:
            return []
        check_due(int(times_ms.min()))
        check_due(int(times_ms.max()))
        found = self.register.load(keys)
        rows = np.array(found, np.int64)
        self._entries.grow(self.register.rows)
        np.frombuffer(self._entries.kinds, np.uint8)[rows] = kind
        self.put_many(rows, times_ms)
        return found

    def dues_of(self, rows: Rows) -> Times:
        """When these rows are due, or were when they came out."""
        return self._entries.dues_of(rows)

    def release(self, row: int) -> None:
        """Forget this row, whether it is in a slot or came out: its number goes to a newcomer."""
        if self._previous[row] != OUT:
            self._entries.unlink(row)
            self._held -= 1
        self.register.remove(row)

    def kind_of(self, row: int) -> int:
        return self._entries.kinds[row]

    def histogram(
        self, from_ms: int, to_ms: int, bucket_ms: int, rows: slice = slice(None)
    ) -> NDArray[np.int64]:
        """How many entries are due in each bucket of from … to - 1; what is late counts at its due time.

        It looks at all rows, or at these: some 5 ns each, so for many take a piece at a time.
        """
        if bucket_ms <= 0 or to_ms <= from_ms:
            raise ValueError("a histogram needs from_ms < to_ms and a bucket of at least 1 ms")
        dues_ms = self._entries.dues_between(from_ms, to_ms, rows)
        buckets = -((from_ms - to_ms) // bucket_ms)
        return np.bincount((dues_ms - from_ms) // bucket_ms, minlength=buckets)
