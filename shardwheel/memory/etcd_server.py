"""An etcd in memory: revisions, leases, history, and the ways a server can fail.

It runs no task of its own. What time brings (a lease ends, a request that was long on its way arrives) stands
in an agenda, and whoever looks next makes it happen first, in order and at its own time. So under trio's
`MockClock` the same calls always give the same history, and a test that forgets to close something hangs
nothing.

What it keeps of the real one: one revision per transaction that changed something; the end of a lease
deletes its keys in one revision; a restart gives every lease its whole TTL again; TTL 1 is granted as 2.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import trio

from shardwheel.errors import NotFoundError
from shardwheel.ports import Compare, Delete, KeyEvent, KeyValue, Put, Snapshot, TxnResult

T = TypeVar("T")

SHORTEST_TTL_S = 2


@dataclass
class _Lease:
    ttl_s: int
    ends_at: float
    keys: set[str] = field(default_factory=set)


class Reply(Generic[T]):
    """What became of a request: nothing yet, an answer, or an error."""

    def __init__(self) -> None:
        self.answers: list[T] = []
        self.error: Exception | None = None


class _Due(NamedTuple):
    at: float
    number: int
    happen: Callable[[], None]


class MemoryEtcd:
    """One etcd cluster's data. Clients see it through `MemoryLeases(server)`; tests break it here."""

    def __init__(self) -> None:
        self.running = True
        self.revision = 1
        self.compacted = 0
        self.watch_generation = 0
        self._items: dict[str, KeyValue] = {}
        self._leases: dict[int, _Lease] = {}
        self._history: list[KeyEvent] = []
        self._agenda: list[_Due] = []
        self._numbers = itertools.count(1)
        self._now = -math.inf
        self._changed = trio.Event()

    # Faults, for everybody at once. (Those of one client: `MemoryLeases.faults`.)

    def stop(self) -> None:
        """Every call is refused and no lease ends, until `start`. The data stays."""
        self.settle()
        self.running = False
        self.wake_watches()

    def start(self) -> None:
        self.settle()
        self.running = True
        for lease in self._leases:
            self._renew(lease)
        self.wake_watches()

    def wipe(self) -> None:
        """All data is lost: keys, leases, history; revisions start again."""
        self.settle()
        self._items.clear()
        self._leases.clear()
        self._history.clear()
        self.revision = 1
        self.compacted = 0
        self.wake_watches()

    def compact(self, revision: int) -> None:
        """Forget the history before this revision, as etcd does by itself every hour or so."""
        self.settle()
        self.compacted = max(self.compacted, min(revision, self.revision))
        del self._history[: self._place_of(self.compacted)]
        self.wake_watches()

    def drop_watches(self) -> None:
        """Cut every watch in a way that may have lost events: each says None once."""
        self.watch_generation += 1
        self.wake_watches()

    # What time brings.

    def settle(self) -> None:
        """Let everything happen that was due by now, each at its own time."""
        now = trio.current_time()
        while self._agenda and self._agenda[0].at <= now:
            due = heapq.heappop(self._agenda)
            self._now = max(self._now, due.at)
            due.happen()
        self._now = max(self._now, now)

    def send(self, arrives_at: float, request: Callable[[], T]) -> Reply[T]:
        """A request is on its way: it is applied when it arrives, whether its sender still waits or not."""
        reply = Reply[T]()

        def arrive() -> None:
            if not self.running:
                reply.error = ConnectionRefusedError("the etcd in memory is stopped")
                return
            try:
                reply.answers.append(request())
            except NotFoundError as error:
                reply.error = error

        self._at(arrives_at, arrive)
        self.settle()
        return reply

    async def wait_changed(self) -> None:
        """Return after a change of the data, of what works, or when the next thing is due."""
        changed = self._changed
        with trio.move_on_at(self._agenda[0].at if self._agenda else math.inf):
            await changed.wait()

    def wake_watches(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # What clients ask for.

    def range(self, prefix: str) -> Snapshot:
        found = sorted(item for key, item in self._items.items() if key.startswith(prefix))
        return Snapshot(tuple(found), self.revision)

    def txn(self, compare: Sequence[Compare], then: Sequence[Put | Delete]) -> TxnResult:
        if not all(self._mod_revision(condition.key) == condition.mod_revision for condition in compare):
            return TxnResult(False, self.revision)
        for operation in then:
            if isinstance(operation, Put) and operation.lease and operation.lease not in self._leases:
                raise NotFoundError("the lease is gone: grant a new one", field="lease")
        self._apply(then)
        return TxnResult(True, self.revision)

    def grant(self, ttl_s: int) -> int:
        lease = next(self._numbers)
        self._leases[lease] = _Lease(max(ttl_s, SHORTEST_TTL_S), math.inf)
        self._renew(lease)
        return lease

    def keep_alive(self, lease: int) -> bool:
        if lease not in self._leases:
            return False
        self._renew(lease)
        return True

    def revoke(self, lease: int) -> None:
        ended = self._leases.pop(lease, None)
        if ended is not None:
            self._apply([Delete(key) for key in sorted(ended.keys)])

    def events(self, prefix: str, from_revision: int) -> list[KeyEvent]:
        later = self._history[self._place_of(from_revision) :]
        return [event for event in later if event.key.startswith(prefix)]

    # How it is done.

    def _at(self, at: float, happen: Callable[[], None]) -> None:
        if at < math.inf:
            due = _Due(at, next(self._numbers), happen)
            heapq.heappush(self._agenda, due)
            if self._agenda[0] is due:
                self.wake_watches()  # They wait for what was due next until now.

    def _renew(self, lease: int) -> None:
        held = self._leases[lease]
        held.ends_at = self._now + held.ttl_s
        self._at(held.ends_at, lambda: self._end_if_due(lease))

    def _end_if_due(self, lease: int) -> None:
        held = self._leases.get(lease)
        if self.running and held is not None and held.ends_at <= self._now:
            self.revoke(lease)

    def _mod_revision(self, key: str) -> int:
        return self._items[key].mod_revision if key in self._items else 0

    def _place_of(self, revision: int) -> int:
        return bisect.bisect_left(self._history, revision, key=lambda event: event.revision)

    def _apply(self, operations: Sequence[Put | Delete]) -> None:
        """Everything at one new revision; none at all if it changes nothing."""
        changes = [op for op in operations if isinstance(op, Put) or op.key in self._items]
        if not changes:
            return
        self.revision += 1
        for operation in changes:
            self._unbind(operation.key)
            item = self._written(operation) if isinstance(operation, Put) else None
            if item is None:
                del self._items[operation.key]
            else:
                self._items[item.key] = item
            self._history.append(KeyEvent(operation.key, item, self.revision))
        self.wake_watches()

    def _written(self, put: Put) -> KeyValue:
        before = self._items.get(put.key)
        if put.lease:
            self._leases[put.lease].keys.add(put.key)
        created = before.create_revision if before else self.revision
        return KeyValue(put.key, put.value, self.revision, created, put.lease)

    def _unbind(self, key: str) -> None:
        before = self._items.get(key)
        if before is not None and before.lease in self._leases:
            self._leases[before.lease].keys.discard(key)
