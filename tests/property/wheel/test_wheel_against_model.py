"""The wheel against the simplest thing that could be right: a dict of due times, sorted when asked.

Times are drawn around every border the wheel has (a slot, a level, the reach of a ring, of all rings),
steps from nothing to decades, and `prepare` is called at any moment with any budget: it may change how
long an advance takes, never what it returns.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shardwheel.wheel import JOB, WAITING, Wheel
from shardwheel.wheel.level import END_MS

NAMES = st.integers(0, 11)
LEVEL_WIDTHS_MS = [1, 1 << 9, 1 << 18, 1 << 27, 1 << 36]
YEAR_MS = 365 * 86_400_000

# Distances in time: a few ms, a few slots of some level give or take a ms, or anything up to 30 years.
DISTANCES_MS = st.one_of(
    st.integers(0, 20),
    st.builds(
        lambda width, slots, off: max(0, width * slots + off),
        st.sampled_from(LEVEL_WIDTHS_MS[1:4]),
        st.sampled_from([1, 2, 3, 511, 512, 513, 1023, 1024, 1025]),
        st.integers(-2, 2),
    ),
    st.integers(0, 2 * 86_400_000),
    st.integers(0, 30 * YEAR_MS),
)


def key_of(name: int) -> bytes:
    return name.to_bytes(16, "big")


class WheelAgainstModel(RuleBasedStateMachine):
    """`held` is the model: name → (due, order of arrival, kind). What came out waits in `out`."""

    @initialize(stand_ms=st.one_of(st.integers(0, 2000), st.integers(1 << 40, (1 << 40) + (1 << 37))))
    def start(self, stand_ms: int) -> None:
        self.wheel = Wheel(stand_ms)
        self.now_ms = stand_ms
        self.held: dict[int, tuple[int, int, int]] = {}
        self.out: dict[int, int] = {}
        self.arrivals = 0

    def due_in(self, distance_ms: int, align: int) -> int:
        """A due time so far ahead, or on the border of a slot of some level near there."""
        due_ms = self.now_ms + distance_ms
        return max(0, due_ms - due_ms % align)

    def remember(self, name: int, due_ms: int, kind: int) -> None:
        self.arrivals += 1
        self.held[name] = (due_ms, self.arrivals, kind)
        self.out.pop(name, None)

    @rule(name=NAMES, distance_ms=DISTANCES_MS, align=st.sampled_from(LEVEL_WIDTHS_MS), waits=st.booleans())
    def insert(self, name: int, distance_ms: int, align: int, waits: bool) -> None:
        due_ms = self.due_in(distance_ms, align)
        kind = WAITING if waits else JOB
        self.wheel.insert(key_of(name), due_ms, kind)
        self.remember(name, due_ms, kind)

    @rule(
        names=st.lists(NAMES, unique=True),
        distance_ms=DISTANCES_MS,
        apart_ms=st.sampled_from([0, 1, 511, 512, 1 << 18]),
    )
    def load(self, names: list[int], distance_ms: int, apart_ms: int) -> None:
        dues_ms = [self.now_ms + distance_ms + apart_ms * place for place in range(len(names))]
        self.wheel.load([key_of(name) for name in names], dues_ms)
        for name, due_ms in zip(names, dues_ms, strict=True):
            self.remember(name, due_ms, JOB)

    @rule(name=NAMES, distance_ms=DISTANCES_MS, align=st.sampled_from(LEVEL_WIDTHS_MS))
    def reschedule(self, name: int, distance_ms: int, align: int) -> None:
        due_ms = self.due_in(distance_ms, align)
        known = name in self.held or name in self.out
        assert self.wheel.reschedule(key_of(name), due_ms) is known
        if known:
            self.remember(name, due_ms, self.wheel.kind_of(self.row_of(name)))

    @rule(name=NAMES)
    def cancel(self, name: int) -> None:
        known = name in self.held or name in self.out
        assert self.wheel.cancel(key_of(name)) is known
        self.held.pop(name, None)
        self.out.pop(name, None)

    @rule(distance_ms=DISTANCES_MS)
    def advance(self, distance_ms: int) -> None:
        self.advance_to(self.now_ms + distance_ms)

    @precondition(lambda self: self.held)
    @rule(before_ms=st.integers(0, 2))
    def advance_to_the_next(self, before_ms: int) -> None:
        """To the next due time or just before it: there, early and late differ by a millisecond."""
        next_ms = min(due_ms for due_ms, _, _ in self.held.values())
        self.advance_to(max(self.now_ms, next_ms - before_ms))

    @rule(width=st.sampled_from(LEVEL_WIDTHS_MS[1:]), off=st.integers(-2, 1))
    def advance_to_a_border(self, width: int, off: int) -> None:
        self.advance_to(max(self.now_ms, (self.now_ms // width + 1) * width + off))

    @rule(name=NAMES, level=st.integers(0, 3), off_ms=st.integers(-1, 1))
    def insert_where_a_ring_ends(self, name: int, level: int, off_ms: int) -> None:
        """Where a ring reaches farthest, what is due a round later must not be taken for what is next."""
        width_ms, upper_ms = LEVEL_WIDTHS_MS[level : level + 2]
        self.advance_to(max(self.now_ms, (self.now_ms // upper_ms + 1) * upper_ms - 1))
        for _ in range(4):
            self.wheel.prepare(12)
        due_ms = self.now_ms + 1 + 1024 * width_ms + off_ms
        self.wheel.insert(key_of(name), due_ms)
        self.remember(name, due_ms, JOB)

    def advance_to(self, now_ms: int) -> None:
        now_ms = min(now_ms, END_MS - 2)
        due = sorted((entry[:2], name) for name, entry in self.held.items() if entry[0] <= now_ms)
        rows = self.wheel.advance(now_ms)
        self.now_ms = now_ms
        assert self.wheel.wake_ms > now_ms
        assert [self.name_of(row) for row in rows] == [name for _, name in due]
        assert [self.wheel.due_ms[row] for row in rows] == [due_ms for (due_ms, _), _ in due]
        for row, (_, name) in zip(rows, due, strict=True):
            assert self.wheel.kind_of(row) == self.held.pop(name)[2]
            self.out[name] = row

    @precondition(lambda self: self.out)
    @rule(distance_ms=DISTANCES_MS)
    def put_back(self, distance_ms: int) -> None:
        for name, row in list(self.out.items()):
            self.wheel.put(row, self.now_ms + distance_ms)
            self.remember(name, self.now_ms + distance_ms, self.wheel.kind_of(row))

    @precondition(lambda self: self.out)
    @rule()
    def release(self) -> None:
        for row in self.out.values():
            self.wheel.release(row)
        self.out.clear()

    @rule(most=st.integers(0, 5))
    def prepare(self, most: int) -> None:
        assert self.wheel.prepare(most) <= most

    @rule(distance_ms=st.integers(-5, 5), bucket_ms=st.integers(1, 700), span_ms=st.integers(1, 3000))
    def histogram(self, distance_ms: int, bucket_ms: int, span_ms: int) -> None:
        from_ms = max(0, self.now_ms + distance_ms)
        counts = [0] * ((span_ms + bucket_ms - 1) // bucket_ms)
        for due_ms, _, _ in self.held.values():
            if from_ms <= due_ms < from_ms + span_ms:
                counts[(due_ms - from_ms) // bucket_ms] += 1
        assert self.wheel.histogram(from_ms, from_ms + span_ms, bucket_ms).tolist() == counts

    @invariant()
    def agrees(self) -> None:
        assert len(self.wheel) == len(self.held)
        assert len(self.wheel.register) == len(self.held) + len(self.out)
        next_ms = min((due_ms for due_ms, _, _ in self.held.values()), default=None)
        assert self.wheel.next_due() == next_ms
        assert next_ms is None or self.wheel.wake_ms <= next_ms
        assert {name for name in range(12) if key_of(name) in self.wheel} == set(self.held)

    def row_of(self, name: int) -> int:
        row = self.wheel.register.find(key_of(name))
        assert row is not None
        return row

    def name_of(self, row: int) -> int:
        return int.from_bytes(self.wheel.register.id_of(row), "big")


TestWheelAgainstModel = WheelAgainstModel.TestCase
TestWheelAgainstModel.settings = settings(
    derandomize=True,
    deadline=None,
    max_examples=200,
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
)
