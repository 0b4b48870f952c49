"""The in-memory PostgreSQL: tables, xids, a clock, an identity, and every fault a test may want.

It knows nothing of jobs or claims: those are functions on its transactions (`ownership`, …), run by a
`MemoryPool`. Its time is trio's, plus a skew that a test sets: under MockClock a day passes in a moment. Or
it is given a clock (`shardwheel.testing`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import trio

from shardwheel.memory.transaction import Transaction
from shardwheel.ports import Identity

# A Tuesday. Any date would do; a round one is easy to read in a failing test.
FIRST_DAY_MS = 1_790_000_000_000.0
# PostgreSQL's own first ordinary xid after initdb is of about this size.
FIRST_XID = 750


class Backup(NamedTuple):
    """All that was committed at one moment."""

    tables: dict[str, dict[Hashable, Any]]
    next_xid: int


class Faults:
    """What is wrong just now. A pause is asked for at every call: a constant, or drawn from a seed."""

    def __init__(self) -> None:
        self.away = False
        # One way between client and server.
        self.latency_s: Callable[[], float] = lambda: 0.0
        # How long a transaction stays open after its work: others commit meanwhile, out of order.
        self.commit_pause_s: Callable[[], float] = lambda: 0.0
        self.lose_next_request = False
        self.lose_next_answer = False
        self._thawed: trio.Event | None = None
        self._when_thawed: list[Callable[[], None]] = []

    def freeze(self) -> None:
        """As after SIGSTOP: connections stay open, nothing answers."""
        if self._thawed is None:
            self._thawed = trio.Event()

    def thaw(self) -> None:
        if self._thawed is not None:
            self._thawed.set()
            self._thawed = None
        waiting, self._when_thawed = self._when_thawed, []
        for act in waiting:
            act()

    def when_thawed(self, act: Callable[[], None]) -> None:
        """What has arrived is done, at once or when the server goes on."""
        if self._thawed is None:
            act()
        else:
            self._when_thawed.append(act)

    async def until_thawed(self) -> None:
        while self._thawed is not None:
            await self._thawed.wait()


class MemoryPostgres:
    def __init__(
        self,
        *,
        tables: Sequence[str] = (),
        first_day_ms: float = FIRST_DAY_MS,
        seed: int = 0,
        clock_ms: Callable[[], float] | None = None,
    ) -> None:
        self.faults = Faults()
        # gen_random_uuid() and the like: chance comes from the seed alone, and goes on after a fail-over.
        self.random = random.Random(seed)
        self.identity = Identity(system_identifier=7_000_000_000_000_000_001, timeline=1)
        self.skew_ms = 0.0
        self.tables: dict[str, dict[Hashable, Any]] = {table: {} for table in tables}
        self.next_xid = FIRST_XID
        # A dict for its order: a run must be the same every time.
        self.open_transactions: dict[Transaction, None] = {}
        self.row_locks: dict[tuple[str, Hashable], Transaction] = {}
        # Grows when all connections break at once.
        self.link_generation = 0
        self._first_day_ms = first_day_ms
        self._clock_ms = clock_ms
        self._started_at_s: float | None = None

    def now_ms(self) -> float:
        """clock_timestamp(): a clock of its own, or trio's from the first time that it is read."""
        if self._clock_ms is not None:
            return self._clock_ms()
        if self._started_at_s is None:
            self._started_at_s = trio.current_time()
        return self._first_day_ms + (trio.current_time() - self._started_at_s) * 1000 + self.skew_ms

    def begin(self) -> Transaction:
        transaction = Transaction(self)
        self.open_transactions[transaction] = None
        return transaction

    def assign_xid(self) -> int:
        self.next_xid += 1
        return self.next_xid - 1

    def snapshot_xmin(self) -> int:
        """pg_snapshot_xmin(pg_current_snapshot()): every smaller xid has ended, and its effect is seen."""
        open_xids = [t.assigned_xid for t in self.open_transactions if t.assigned_xid is not None]
        return min(open_xids, default=self.next_xid)

    def break_links(self) -> None:
        """Every connection ends, and with it the transaction it had open."""
        self.link_generation += 1
        for transaction in list(self.open_transactions):
            transaction.rollback()

    def kill(self) -> None:
        """As after kill -9: what is committed stays."""
        self.faults.away = True
        self.break_links()

    def start(self) -> None:
        self.faults.away = False

    def backup(self) -> Backup:
        return Backup({name: dict(rows) for name, rows in self.tables.items()}, self.next_xid)

    def fail_over(self, backup: Backup) -> None:
        """A standby that had received only this much becomes the primary: commits since are gone, and the
        xids that they had are given out again."""
        self.break_links()
        self.tables = {name: dict(rows) for name, rows in backup.tables.items()}
        self.next_xid = backup.next_xid
        self.identity = self.identity._replace(timeline=self.identity.timeline + 1)
        self.start()
