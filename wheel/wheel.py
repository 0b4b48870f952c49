"""The hierarchical timing wheel of one partition: a million entries, and a tick costs what is due.

A wheel is told the time and never asks for it: `advance(now_ms)` returns what became due since the last
call, in due order. It does no I/O, reads no clock, waits for nothing and logs nothing.

Why not a heap? A heap pays log n at every insert and every pop, in cache misses all over a million
entries, and can't cancel. A wheel throws an entry into the slot of its time, and only looks at a slot
when its time has come. One ring with a slot for each millisecond of the years ahead would be too long,
so there are five rings (`level.py`), and an entry sits in the finest one that reaches as far as its
time. As that time draws near, its slot is *poured* into the ring below, where slots are 512 times finer;
in the end it lies in a slot of one millisecond.

A worked example, with the first three levels (slots of 1 ms, 0.512 s and 4.4 min), at time 0:

    insert(a, 700)        level 0, slot 700                       within the first 1.024 s
    insert(b, 60_000)     level 1, slot 117 (59,904 … 60,415)     beyond 1.024 s, within 8.7 min
    insert(c, 3_600_000)  level 2, slot 13 (3,407,872 … )         beyond 8.7 min
    advance(700)          → [a]       one slot looked at; b and c were not touched
    advance(59_400)       → []        level 0 now reaches past 59,904: prepare() pours slot 117 into it,
                                      and b lies in level 0, slot 60,000 mod 1,024 = 608
    advance(59_999)       → []        never early, not by a millisecond
    advance(60_000)       → [b]
    reschedule(c, 60_500) c leaves its slot, wherever it lies, and goes straight into level 0 or 1
    advance(31_536_000_000)           a year in one go: five rings are searched for occupied slots,
                          → [c]       whole ones come out sorted, a slot cut by "now" is poured

Where an entry lies is decided by *limits*, one a level: all that is due before `limits[n]` lies in the
levels 0 … n. A limit is always the start of a slot of the level above: all slots below it were poured.
`prepare(most)` pours ahead of need, at most so many entries a call, while time runs towards them; it
changes nothing but how long the next `advance` takes. Without it, `advance` pours at the border, at once.

Entries with the same due time come out in the order in which they were inserted or moved. An entry that
is late when it comes (due ≤ `stand_ms`) comes out at the next advance, before all others.

Keys are 16-byte ids, rows are what the register makes of them; rows are the quick way in, for whoever
keeps columns of their own. After `advance` a row belongs to the caller, who gives it its next time
(`put`) or gives it back (`release`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from shardwheel.wheel.entries import OUT, Entries
from shardwheel.wheel.level import END_MS, LAST_SLOT, LATE, LEVELS, SLOTS, Level
from shardwheel.wheel.register import Register

# The two kinds of entry: a job stands at its next fire time, a waiting execution at its own due time.
JOB = 0
WAITING = 1


class Wheel:
    """The entries of one partition by due time, fired through `stand_ms`."""

    __slots__ = (
        "_entries",
        "_held",
        "_levels",
        "_limits",
        "_occupied",
        "_previous",
        "due_ms",
        "register",
        "stand_ms",
        "touched",
        "wake_ms",
    )

    def __init__(self, stand_ms: int) -> None:
        if not 0 <= stand_ms < END_MS - 1:
            raise ValueError(f"a wheel stands between 1970 and 2248: {stand_ms} ms is outside")
        self.register = Register()
        self._entries = Entries()
        # The columns that the quick paths use, one attribute nearer.
        self.due_ms: array[int] = self._entries.due_ms
        self._previous = self._entries.previous
        self._occupied = self._entries.occupied
        self._levels = [Level(number, self._occupied) for number in range(LEVELS)]
        # Fired through this time: all that was due until here has come out.
        self.stand_ms = stand_ms
        # Nothing is due before this time: until then, nobody needs to call `advance`.
        self.wake_ms = END_MS
        # Entries moved or looked at by `advance` and `prepare` so far: what a benchmark counts.
        self.touched = 0
        self._held = 0
        self._limits = [0] * (LEVELS - 1) + [END_MS]
        for number in range(LEVELS - 1):
            self._raise_limit(number, stand_ms)

    def __len__(self) -> int:
        """How many entries wait for their time."""
        return self._held

    def __contains__(self, key: bytes) -> bool:
        row = self.register.find(key)
        return row is not None and self._previous[row] != OUT

    # --- by id ---------------------------------------------------------------------------------------

    def insert(self, key: bytes, due_ms: int, kind: int = JOB) -> int:
        """Add an entry, or move it if it is here already; returns its row."""
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

    def load(self, keys: Sequence[bytes], dues_ms: Sequence[int], kind: int = JOB) -> list[int]:
        """Add many entries at once; returns their rows in the same order."""
        rows = self.register.load(keys)
        self._entries.grow(self.register.rows)
        kinds, put = self._entries.kinds, self.put
        for row, due_ms in zip(rows, dues_ms, strict=True):
            kinds[row] = kind
            put(row, due_ms)
        return rows

    # --- by row --------------------------------------------------------------------------------------

    def put(self, row: int, due_ms: int) -> None:
        """Let this row be due at this time, whether it is in a slot or came out."""
        slot = self._slot_of(due_ms)
        self.due_ms[row] = due_ms
        if self._previous[row] == OUT:
            self._held += 1
        else:
            self._entries.unlink(row)
        self._entries.link(row, slot)
        if due_ms < self.wake_ms:
            self.wake_ms = due_ms

    def release(self, row: int) -> None:
        """Forget this row, whether it is in a slot or came out: its number goes to a newcomer."""
        if self._previous[row] != OUT:
            self._entries.unlink(row)
            self._held -= 1
        self.register.remove(row)

    def kind_of(self, row: int) -> int:
        return self._entries.kinds[row]

    # --- time ----------------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> list[int]:
        """The rows that became due until now, this millisecond included, in due order.

        Time never runs backwards; the same time again returns what was inserted late meanwhile.
        """
        if not self.stand_ms <= now_ms < END_MS - 1:
            raise ValueError(f"a wheel that stands at {self.stand_ms} can't advance to {now_ms}")
        rows: list[int] = []
        if self._occupied[LATE]:
            self._entries.take(LATE, rows)
            rows.sort(key=self.due_ms.__getitem__)
        self._take_passed(self._levels[0], self.stand_ms + 1, now_ms, rows)
        if now_ms >= self._limits[0]:
            self._cross(now_ms, rows)
        self.stand_ms = now_ms
        self.touched += len(rows)
        self._held -= len(rows)
        self.wake_ms = self._nothing_before_ms()
        return rows

    def prepare(self, most: int) -> int:
        """Pour at most so many entries into finer rings ahead of their time; returns how many.

        Finest first: there it is most urgent. A slot may be poured as soon as the ring below has room.
        """
        moved = 0
        for number in range(LEVELS - 1):
            while moved < most and (slot := self._next_to_pour(number)) is not None:
                if self._occupied[slot]:
                    level = self._levels[number]
                    moved += self._entries.pour(slot, level.base, level.shift, most - moved)
                    if self._occupied[slot]:
                        break
                self._limits[number] += self._levels[number + 1].width_ms
        self.touched += moved
        return moved

    # --- questions -----------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """When the first entry is due. It looks through one slot, or two: `wake_ms` is cheaper."""
        if self._occupied[LATE]:
            return min(self._dues_in(LATE))
        best: int | None = None
        for level, number in self._first_slots():
            if best is not None and best < number << level.shift:
                break
            first = min(self._dues_in(level.slot(number)))
            best = first if best is None else min(best, first)
        return best

    def histogram(self, from_ms: int, to_ms: int, bucket_ms: int) -> list[int]:
        """How many entries are due in each bucket of from … to - 1; what is late counts at its due time.

        It looks at every entry held: milliseconds for a partition, not for the tick's path.
        """
        if bucket_ms <= 0 or to_ms <= from_ms:
            raise ValueError("a histogram needs from_ms < to_ms and a bucket of at least 1 ms")
        counts = [0] * -((from_ms - to_ms) // bucket_ms)
        for due_ms, before in zip(self.due_ms, self._previous, strict=True):
            if before != OUT and from_ms <= due_ms < to_ms:
                counts[(due_ms - from_ms) // bucket_ms] += 1
        return counts

    # --- inside --------------------------------------------------------------------------------------

    def _slot_of(self, due_ms: int) -> int:
        """Where an entry belongs: late, or the finest level whose limit is beyond its time."""
        limits = self._limits
        if due_ms >= limits[1]:
            if due_ms < limits[2]:
                return 2 * SLOTS + (due_ms >> 18 & LAST_SLOT)
            if due_ms < limits[3]:
                return 3 * SLOTS + (due_ms >> 27 & LAST_SLOT)
            if due_ms < END_MS:
                return 4 * SLOTS + (due_ms >> 36)
            raise ValueError(f"a due time lies between 1970 and 2248: {due_ms} ms is outside")
        if due_ms >= limits[0]:
            return SLOTS + (due_ms >> 9 & LAST_SLOT)
        return due_ms & LAST_SLOT if due_ms > self.stand_ms else LATE

    def _take_passed(self, level: Level, from_ms: int, now_ms: int, rows: list[int]) -> None:
        """Take out the slots of a level that lie wholly in from … now, in order."""
        number = from_ms >> level.shift
        end = (now_ms + 1) >> level.shift
        while (found := level.next_occupied(number, end)) is not None:
            self._entries.take(level.slot(found), rows)
            number = found + 1

    def _cross(self, now_ms: int, rows: list[int]) -> None:
        """Time passes a limit: take what lies wholly behind it, pour the slots that it cuts in two."""
        cut = []
        for number, level in enumerate(self._levels[1:]):
            if now_ms < self._limits[number]:
                break
            self._take_passed(level, self._limits[number], now_ms, rows)
            if self._raise_limit(number, now_ms):
                cut.append(level.slot((now_ms + 1) >> level.shift))
        self.stand_ms = now_ms
        for slot in cut:
            self._spill(slot, rows)
        rows.sort(key=self.due_ms.__getitem__)

    def _raise_limit(self, number: int, stand_ms: int) -> bool:
        """Move a level's limit to the first border beyond this stand; true if it lies inside a slot."""
        upper = self._levels[number + 1]
        border_ms = (stand_ms + 1) >> upper.shift << upper.shift
        inside = border_ms <= stand_ms
        self._limits[number] = border_ms + upper.width_ms if inside else border_ms
        return inside

    def _spill(self, slot: int, rows: list[int]) -> None:
        """Of a slot that the stand cuts in two, take out what is due; the rest goes to finer levels."""
        inside: list[int] = []
        self._entries.take(slot, inside)
        for row in inside:
            due_ms = self.due_ms[row]
            if due_ms <= self.stand_ms:
                rows.append(row)
            else:
                self._entries.link(row, self._slot_of(due_ms))
                self.touched += 1

    def _next_to_pour(self, number: int) -> int | None:
        """The slot of the level above that comes next into this level, if there is room for it."""
        start_ms = self._limits[number]
        if start_ms >= self._limits[number + 1]:
            return None
        upper = self._levels[number + 1]
        if start_ms + upper.width_ms > self._levels[number].reach_ms(self.stand_ms + 1):
            return None
        return upper.slot(start_ms >> upper.shift)

    def _first_slots(self) -> Iterator[tuple[Level, int]]:
        """Of each level the first slot that holds something, finest level first."""
        from_ms = self.stand_ms + 1
        for level, limit_ms in zip(self._levels, self._limits, strict=True):
            first = level.next_occupied(from_ms >> level.shift, END_MS >> level.shift)
            if first is not None:
                yield level, first
            from_ms = limit_ms

    def _nothing_before_ms(self) -> int:
        """A time before which nothing is due: the start of the first occupied slot."""
        best = END_MS
        for level, number in self._first_slots():
            best = min(best, number << level.shift)
            if level.shift == 0 and best < self._limits[0]:
                break
        return best

    def _dues_in(self, slot: int) -> list[int]:
        return [self.due_ms[row] for row in self._entries.in_slot(slot)]
