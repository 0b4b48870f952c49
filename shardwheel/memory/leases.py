"""The twin of `etcd.Etcd`: a client of a `MemoryEtcd`, with faults of its own.

Each client stands for one process, so each can be cut off, slowed down or deprived of answers while the
others go on:

    server = MemoryEtcd()
    mine, other = MemoryLeases(server), MemoryLeases(server)
    mine.faults = Faults(away=True)              # refused at once; nothing arrives
    mine.faults = Faults(request_delay_s=5)      # fails at the time limit, and is applied later all the same
    mine.faults = Faults(request_delay_s=inf)    # fails at the time limit, and never arrives
    mine.faults = Faults(lose_answers=True)      # applied, and then the connection breaks
    mine.faults = Faults()                       # all is well again
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import trio

from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.lease_rules import KeyElection, check_from_revision, check_ttl, check_txn
from shardwheel.memory.etcd_server import MemoryEtcd
from shardwheel.ports import Compare, Delete, Election, KeyEvent, Put, Snapshot, TxnResult

__all__ = ["Faults", "MemoryEtcd", "MemoryLeases"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong between one client and the server. Set a new one to change it."""

    away: bool = False
    request_delay_s: float = 0.0
    answer_delay_s: float = 0.0
    lose_answers: bool = False
    stall_watches: bool = False


class MemoryLeases:
    """`Leases` in memory. It never leaves the thread and never reads another clock than trio's."""

    def __init__(self, server: MemoryEtcd, *, time_limit_s: float = 2.0) -> None:
        self._server = server
        self._time_limit_s = time_limit_s
        self._faults = Faults()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """There is nothing to let go of."""

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        self._server.wake_watches()

    async def range(self, prefix: str) -> Snapshot:
        return await self._call(lambda: self._server.range(prefix), writes=False)

    async def txn(self, compare: Sequence[Compare], then: Sequence[Put | Delete]) -> TxnResult:
        check_txn(compare, then)
        return await self._call(lambda: self._server.txn(compare, then))

    async def grant(self, ttl_s: int) -> int:
        check_ttl(ttl_s)
        return await self._call(lambda: self._server.grant(ttl_s))

    async def keep_alive(self, lease: int) -> bool:
        return await self._call(lambda: self._server.keep_alive(lease))

    async def revoke(self, lease: int) -> None:
        await self._call(lambda: self._server.revoke(lease))

    @asynccontextmanager
    async def watch(
        self, prefix: str, from_revision: int
    ) -> AsyncIterator[AsyncIterator[Sequence[KeyEvent] | None]]:
        check_from_revision(from_revision)
        yield _MemoryWatch(self._server, self, prefix, from_revision)

    def election(self, key: str, lease: int, value: bytes) -> Election:
        return KeyElection(self, key, lease, value)

    async def _call(self, request: Callable[[], T], *, writes: bool = True) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        faults = self._faults
        if faults.away:
            await trio.lowlevel.checkpoint()
            raise _unavailable(ConnectionRefusedError("away"), maybe_applied=False)
        sent_at = trio.current_time()
        arrives_at = sent_at + faults.request_delay_s
        reply = self._server.send(arrives_at, request)
        answered_at = arrives_at + faults.answer_delay_s
        await trio.sleep_until(min(answered_at, sent_at + self._time_limit_s))
        self._server.settle()
        if isinstance(reply.error, NotFoundError):
            raise reply.error
        if reply.error is not None:
            raise _unavailable(reply.error, maybe_applied=False)
        if faults.lose_answers:
            raise _unavailable(ConnectionResetError("the answer was lost"), maybe_applied=writes)
        if answered_at > sent_at + self._time_limit_s:
            raise _unavailable(trio.TooSlowError("no answer in time"), maybe_applied=writes)
        return reply.answers[0]


class _MemoryWatch:
    """Reads the server's history from its place on; what it says and when is as in `etcd_watch`."""

    def __init__(self, server: MemoryEtcd, client: MemoryLeases, prefix: str, from_revision: int) -> None:
        self._server = server
        self._client = client
        self._prefix = prefix
        self._next_revision = from_revision
        self._generation = server.watch_generation

    def __aiter__(self) -> AsyncIterator[Sequence[KeyEvent] | None]:
        return self

    async def __anext__(self) -> Sequence[KeyEvent] | None:
        await trio.lowlevel.checkpoint()
        while True:
            self._server.settle()
            if self._is_connected():
                if self._lost_its_place():
                    return None
                events = self._server.events(self._prefix, self._next_revision)
                if events:
                    self._next_revision = events[-1].revision + 1
                    return tuple(events)
            await self._server.wait_changed()

    def _is_connected(self) -> bool:
        faults = self._client.faults
        return self._server.running and not faults.away and not faults.stall_watches

    def _lost_its_place(self) -> bool:
        server = self._server
        if self._next_revision < server.compacted:
            self._next_revision = server.compacted
        elif server.revision < self._next_revision - 1:
            self._next_revision = server.revision + 1
        elif self._generation == server.watch_generation:
            return False
        self._generation = server.watch_generation
        return True


def _unavailable(cause: Exception, *, maybe_applied: bool) -> UnavailableError:
    error = UnavailableError(f"the etcd in memory is out of reach: {cause}", maybe_applied=maybe_applied)
    error.__cause__ = cause
    return error
