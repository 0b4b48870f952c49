"""One level of a wheel: a ring of 1,024 slots, of which each is half as long as the ring below.

    level   a slot is      the ring reaches   holds, typically
      0     1 ms           1.024 s            what comes next, to the millisecond
      1     0.512 s        8.7 min            every few seconds, every minute
      2     4.4 min        3.1 days           hourly, nightly
      3     37 h           4.4 years          weekly, monthly, yearly
      4     2.2 years      until 2248         the overflow: all the rest

A slot's *number* counts from 1970 in slots of this level: `due_ms >> shift`. Its place in the ring is
the number modulo 1,024. The ring below is exactly as long as two slots of this level: while time runs
through one of them, the next can already be poured into the ring below, piece by piece.
"""

from __future__ import annotations

SLOTS = 1024
LAST_SLOT = SLOTS - 1
BITS_BETWEEN_LEVELS = 9
LEVELS = 5
# Here the top level ends, with its slot 128: 2248-09-26. No schedule reaches beyond the year 2200.
END_MS = 1 << 43
# All rings lie one after the other; then comes one slot for entries that were late when they came.
LATE = (LEVELS - 1) * SLOTS + (END_MS >> (LEVELS - 1) * BITS_BETWEEN_LEVELS)


class Level:
    """Where a level's slots lie, and which of them is the next that holds something."""

    __slots__ = ("_end", "_occupied", "base", "shift", "width_ms")

    def __init__(self, number: int, occupied: bytearray) -> None:
        self.shift = number * BITS_BETWEEN_LEVELS
        self.width_ms = 1 << self.shift
        self.base = number * SLOTS
        # The top level's ring is cut short where time ends.
        self._end = self.base + min(SLOTS, END_MS >> self.shift)
        self._occupied = occupied

    def slot(self, number: int) -> int:
        """The slot that has this number, as an index over all rings of the wheel."""
        return self.base + (number & LAST_SLOT)

    def stretches(self, number: int, end: int) -> list[tuple[int, int]]:
        """Where the slots number … end - 1 lie, in order: one stretch, or two past the end of the ring."""
        end = min(end, number + SLOTS)
        begin, wraps_by = self.base + (number & LAST_SLOT), (number & LAST_SLOT) + end - number - SLOTS
        if wraps_by <= 0:
            return [(begin, begin + end - number)]
        return [(begin, self.base + SLOTS), (self.base, self.base + wraps_by)]

    def next_occupied(self, number: int) -> int:
        """The number of the first slot from this one on that holds something; -1 if the ring is empty."""
        at = self.base + (number & LAST_SLOT)
        found = self._occupied.find(1, at, self._end)
        if found >= 0:
            return number + found - at
        # Past the ring's last slot it goes on with its first.
        found = self._occupied.find(1, self.base, at)
        return number + SLOTS + found - at if found >= 0 else -1
