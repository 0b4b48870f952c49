"""A transaction of the in-memory PostgreSQL: READ COMMITTED, row locks, an xid from the first write on.

A function on a transaction runs without an await, so a statement sees one state of the tables: its snapshot.
Writes stay in the transaction until it commits. Whoever wants a row that another open transaction wrote or
locked waits for that one to end and then starts over, which is what PostgreSQL's re-check comes to.

Rows are immutable values (a NamedTuple, a frozen Struct): changing one means putting another in its place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

import trio

from shardwheel.errors import UnavailableError

if TYPE_CHECKING:
    from shardwheel.memory.postgres_server import MemoryPostgres


class RowLockedError(Exception):
    """Another open transaction holds the row: wait until it has ended, then begin again."""

    def __init__(self, holder: Transaction) -> None:
        super().__init__("the row is locked by another transaction")
        self.holder = holder


class Transaction:
    """Made by `MemoryPostgres.begin`; ends by commit, rollback, or with its server."""

    def __init__(self, server: MemoryPostgres) -> None:
        self.server = server
        self.ended = trio.Event()
        self.assigned_xid: int | None = None
        self._writes: dict[str, dict[Hashable, Any]] = {}
        self._locked: set[tuple[str, Hashable]] = set()

    @property
    def xid(self) -> int:
        """pg_current_xact_id(): assigned when it is first asked for."""
        if self.assigned_xid is None:
            self.assigned_xid = self.server.assign_xid()
        return self.assigned_xid

    def get(self, table: str, key: Hashable) -> Any:
        """The row, as committed or as written here; None when there is none."""
        written = self._writes.get(table, {})
        return written[key] if key in written else self.server.tables[table].get(key)

    def rows(self, table: str) -> Iterator[tuple[Hashable, Any]]:
        """All rows with their keys, in the order in which they were first inserted."""
        merged = {**self.server.tables[table], **self._writes.get(table, {})}
        return ((key, row) for key, row in merged.items() if row is not None)

    def lock(self, table: str, key: Hashable) -> None:
        """SELECT … FOR UPDATE; raises RowLockedError instead of waiting."""
        holder = self.server.row_locks.setdefault((table, key), self)
        if holder is not self:
            raise RowLockedError(holder)
        self._locked.add((table, key))

    def put(self, table: str, key: Hashable, row: Any) -> None:
        """Insert or update; None deletes."""
        self.lock(table, key)
        self._writes.setdefault(table, {})[key] = row
        _ = self.xid

    def has_written(self, table: str) -> bool:
        return table in self._writes

    def written(self) -> dict[str, dict[Hashable, Any]]:
        """What it will have changed, by table and key."""
        return self._writes

    def commit(self) -> None:
        if self.ended.is_set():
            raise UnavailableError("the transaction ended with its connection")
        for table, written in self._writes.items():
            rows = self.server.tables[table]
            for key, row in written.items():
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row
        self._end()

    def commit_late(self) -> None:
        """COMMIT of somebody who does not wait any more: done, unless the transaction is gone."""
        if not self.ended.is_set():
            self.commit()

    def rollback(self) -> None:
        if not self.ended.is_set():
            self._end()

    def _end(self) -> None:
        for name in self._locked:
            del self.server.row_locks[name]
        del self.server.open_transactions[self]
        self.ended.set()
