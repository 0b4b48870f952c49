"""The rings of a wheel: rows in, rows out, by time. This is the machine; `wheel.py` gives it names.

Where a row lies is decided by *limits*, one a level: all that is due before `limits[n]` lies in the
levels 0 … n. A limit is always the start of a slot of the level above, namely of the next one to be
poured. A new wheel that stands at 100,000 ms, for example:

    level 0   100,001 … 100,863    limit 0 = 100,864, where slot 197 of level 1 begins (197 × 512)
    level 1   100,864 … 524,287    limit 1 = 524,288, where slot 2 of level 2 begins
    level 2   524,288 … 268,435,455, and so on

Time moves limits in two ways. `prepare` pours the next slot ahead of need, a few rows a call, as soon as
the ring below has room; a slot of which rows are left still counts as not poured, and newcomers for its
time join the end of its queue, so that rows of the same millisecond never overtake each other. And
`advance`, when it finds that it passes a limit, takes whole slots that lie behind it and pours the one
that "now" cuts in two, all at once. The result is the same; only the longest call is longer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from shardwheel.wheel.entries import OUT, SLOT, Entries, Rows, Times
from shardwheel.wheel.level import BITS_BETWEEN_LEVELS, END_MS, LAST_SLOT, LATE, LEVELS, SLOTS, Level

_LAST_STAND_MS = END_MS - 1
# Fewer rows than these are put sooner one by one than all at once: that costs 35 µs before the first one.
FEW = 64


class Rings:
    """Rows by due time, in five rings, fired through `stand_ms`."""

    __slots__ = (
        "_entries",
        "_first",
        "_held",
        "_last",
        "_levels",
        "_limits",
        "_next",
        "_occupied",
        "_previous",
        "_room_at_ms",
        "due_ms",
        "stand_ms",
        "touched",
        "wake_ms",
    )

    def __init__(self, stand_ms: int) -> None:
        if not 0 <= stand_ms < _LAST_STAND_MS:
            raise ValueError(f"a wheel stands between 1970 and 2248: {stand_ms} ms is outside")
        self._entries = Entries()
        # The columns that the quick paths use, one attribute nearer.
        self.due_ms: array[int] = self._entries.due_ms
        self._next = self._entries.next
        self._previous = self._entries.previous
        self._first = self._entries.first
        self._last = self._entries.last
        self._occupied = self._entries.occupied
        self._levels = [Level(number, self._occupied) for number in range(LEVELS)]
        # Fired through this time: all that was due until here has come out.
        self.stand_ms = stand_ms
        # Nothing is due before this time: until then, nobody needs to call `advance`.
        self.wake_ms = END_MS
        # Rows moved or looked at by `advance` and `prepare` so far: what a benchmark counts.
        self.touched = 0
        self._held = 0
        # Before this stand, `prepare` would find no room in any ring.
        self._room_at_ms = 0
        self._limits = [0] * (LEVELS - 1) + [END_MS]
        for number in range(LEVELS - 1):
            self._raise_limit(number, stand_ms)
        # Empty slots cost nothing to pour: so the first entries find every ring open as far as it reaches.
        # Once for each level, as a level can only go where the one above has gone before.
        for _ in range(LEVELS - 1):
            self.prepare(1)

    def __len__(self) -> int:
        """How many rows wait for their time."""
        return self._held

    def put(self, row: int, due_ms: int) -> None:
        """Let this row be due at this time, whether it is in a slot or came out.

        It goes to the finest level whose limit lies beyond its time: here the levels are written out,
        the frequent ones first, since every fire passes through.
        """
        limits = self._limits
        if due_ms >= limits[1]:
            if due_ms < limits[2]:
                slot = 2 * SLOTS + (due_ms >> 18 & LAST_SLOT)
            elif due_ms < limits[3]:
                slot = 3 * SLOTS + (due_ms >> 27 & LAST_SLOT)
            else:
                check_due(due_ms)
                slot = 4 * SLOTS + (due_ms >> 36)
        elif due_ms >= limits[0]:
            slot = SLOTS + (due_ms >> 9 & LAST_SLOT)
        elif due_ms > self.stand_ms:
            slot = due_ms & LAST_SLOT
        else:
            check_due(due_ms)
            slot = LATE
        self.due_ms[row] = due_ms
        previous, last = self._previous, self._last
        if previous[row] == OUT:
            self._held += 1
        else:
            self._entries.unlink(row)
        tail = last[slot]
        previous[row] = tail
        self._next[row] = SLOT + slot
        last[slot] = row
        if tail < SLOT:
            self._next[tail] = row
        else:
            self._first[slot] = row
            self._occupied[slot] = 1
        if due_ms < self.wake_ms:
            self.wake_ms = due_ms

    def put_many(self, rows: Rows, dues_ms: Times) -> None:
        """The same as `put` of each, in this order; no row may come twice."""
        if len(rows) < FEW:
            for row, due_ms in zip(rows.tolist(), dues_ms.tolist(), strict=True):
                self.put(row, due_ms)
            return
        first_ms = int(dues_ms.min())
        check_due(first_ms)
        check_due(int(dues_ms.max()))
        for row in self._entries.linked(rows).tolist():
            self._entries.unlink(row)
            self._held -= 1
        # As many limits as lie at or before its time, so many levels up it goes.
        levels = np.array(self._limits[:-1]).searchsorted(dues_ms, side="right")
        slots = levels * SLOTS + (dues_ms >> levels * BITS_BETWEEN_LEVELS & LAST_SLOT)
        slots[dues_ms <= self.stand_ms] = LATE
        self._entries.set_dues(rows, dues_ms)
        self._entries.link(rows, slots)
        self._held += len(rows)
        self.wake_ms = min(self.wake_ms, first_ms)

    def advance(self, now_ms: int) -> list[int]:
        """The rows that became due until now, this millisecond included, in due order.

        Time never runs backwards: that is a ValueError. The same time again returns what came late
        meanwhile.
        """
        if not self.stand_ms <= now_ms < _LAST_STAND_MS:
            raise ValueError(f"a wheel that stands at {self.stand_ms} can't advance to {now_ms}")
        rows: list[int] = []
        if now_ms >= self.wake_ms:
            if self._occupied[LATE]:
                self._entries.take(LATE, LATE + 1, rows)
                rows.sort(key=self.due_ms.__getitem__)
            self.wake_ms = self._take_near(now_ms, rows)
        elif now_ms < self._limits[0]:
            self.stand_ms = now_ms
            return rows
        if now_ms >= self._limits[0]:
            self._cross(now_ms, rows)
        self.stand_ms = now_ms
        self.touched += len(rows)
        self._held -= len(rows)
        if self.wake_ms >= self._limits[0]:
            self.wake_ms = self._nothing_before_ms()
        return rows

    def prepare(self, most: int) -> int:
        """Pour at most so many rows into finer rings ahead of their time; returns how many.

        Finest first: there it is most urgent. A slot may be poured as soon as the ring below has room.
        """
        if self.stand_ms + 1 < self._room_at_ms:
            return 0
        moved = 0
        for number in range(LEVELS - 1):
            while moved < most and self.stand_ms + 1 >= self._room_for_next_ms(number):
                moved += self._pour_next(number, most - moved)
        self._room_at_ms = min(self._room_for_next_ms(number) for number in range(LEVELS - 1))
        self.touched += moved
        return moved

    def next_due(self) -> int | None:
        """When the first row is due. It looks through one slot, or two: `wake_ms` is cheaper."""
        if self._occupied[LATE]:
            return min(self._dues_in(LATE))
        best: int | None = None
        for level, number in self._first_slots():
            if best is not None and best < number << level.shift:
                break
            first = min(self._dues_in(level.slot(number)))
            best = first if best is None else min(best, first)
        return best

    def _take_near(self, now_ms: int, rows: list[int]) -> int:
        """Take what is due out of level 0; returns when its next row is due."""
        number = self.stand_ms + 1
        begin = number & LAST_SLOT
        end = begin + now_ms + 1 - number
        if end < SLOTS:
            # Mostly, a tick does not come to the end of the ring: then its slots lie in one stretch.
            self._entries.take(begin, end, rows)
            found = self._occupied.find(1, end, SLOTS)
            if found >= 0:
                return number + found - begin
        else:
            for stretch in self._levels[0].stretches(number, now_ms + 1):
                self._entries.take(*stretch, rows)
        found = self._levels[0].next_occupied(number)
        return found if found >= 0 else END_MS

    def _cross(self, now_ms: int, rows: list[int]) -> None:
        """Time passes a limit: take what lies wholly behind it, pour the slots that it cuts in two."""
        cut = []
        for number, level in enumerate(self._levels[1:]):
            if now_ms < self._limits[number]:
                break
            passed = self._limits[number] >> level.shift, (now_ms + 1) >> level.shift
            for stretch in level.stretches(*passed):
                self._entries.take(*stretch, rows)
            if self._raise_limit(number, now_ms):
                cut.append(level.slot((now_ms + 1) >> level.shift))
        self.stand_ms = now_ms
        for slot in cut:
            self._spill(slot, rows)
        rows.sort(key=self.due_ms.__getitem__)

    def _raise_limit(self, number: int, stand_ms: int) -> bool:
        """Move a level's limit to the first border beyond this stand; true if that cuts a slot in two."""
        upper = self._levels[number + 1]
        border_ms = (stand_ms + 1) >> upper.shift << upper.shift
        cuts = border_ms <= stand_ms
        self._limits[number] = border_ms + upper.width_ms if cuts else border_ms
        return cuts

    def _spill(self, slot: int, rows: list[int]) -> None:
        """Of a slot that the stand cuts in two, take out what is due; the rest goes to finer levels."""
        inside: list[int] = []
        self._entries.take(slot, slot + 1, inside)
        found = np.array(inside, np.int64)
        dues_ms = self._entries.dues_of(found)
        left = dues_ms > self.stand_ms
        rows.extend(found[~left].tolist())
        self._held -= int(left.sum())
        self.touched += int(left.sum())
        self.put_many(found[left], dues_ms[left])

    def _room_for_next_ms(self, number: int) -> int:
        """From which time on this level has room for the next slot of the level above.

        Its ring is as long as two such slots: there is room once time has reached the last one that was
        poured. If the level above has nothing below its own limit, that limit must be raised first.
        """
        if self._limits[number] >= self._limits[number + 1]:
            return END_MS
        return self._limits[number] - self._levels[number + 1].width_ms

    def _pour_next(self, number: int, most: int) -> int:
        """Pour from the slot that comes next into this level; if nothing is left there, raise the limit."""
        level, upper = self._levels[number], self._levels[number + 1]
        slot = upper.slot(self._limits[number] >> upper.shift)
        moved = self._entries.pour(slot, level.base, level.shift, most) if self._occupied[slot] else 0
        if not self._occupied[slot]:
            self._limits[number] += upper.width_ms
        return moved

    def _first_slots(self) -> Iterator[tuple[Level, int]]:
        """Of each level the first slot that holds something, finest level first."""
        for level in self._levels:
            first = level.next_occupied((self.stand_ms + 1) >> level.shift)
            if first >= 0:
                yield level, first

    def _nothing_before_ms(self) -> int:
        """A time before which nothing is due: the earliest start of an occupied slot.

        All levels are asked: a slot that is half poured may hold less than what was poured from it.
        """
        return min((number << level.shift for level, number in self._first_slots()), default=END_MS)

    def _dues_in(self, slot: int) -> list[int]:
        return [self.due_ms[row] for row in self._entries.in_slot(slot)]


def check_due(due_ms: int) -> None:
    if not 0 <= due_ms < END_MS:
        raise ValueError(f"a due time lies between 1970 and 2248: {due_ms} ms is outside")
