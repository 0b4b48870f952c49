"""`MemoryPool`: what `store.pool.Pool` is to PostgreSQL, on the in-memory twin and without a thread.

A call passes the same points as over the network: the request travels, the work is done in a transaction,
COMMIT arrives, the answer travels back. A fault may strike at each of them, and the caller is told what it
could know: before COMMIT was sent nothing is applied; after it, without an answer, something may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import trio

from shardwheel.errors import UnavailableError
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.transaction import RowLockedError, Transaction

P = ParamSpec("P")
T = TypeVar("T")


class MemoryPool:
    def __init__(self, server: MemoryPostgres, *, limit_s: float = 10.0) -> None:
        self._server = server
        self._limit_s = limit_s

    async def run(self, fn: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `fn(transaction, …)` and return its result once that is committed."""

        def work(transaction: Transaction) -> T:
            return fn(transaction, *args, **kwargs)

        call = _Call(self._server)
        with trio.move_on_after(self._limit_s):
            return await call.run(work)
        raise UnavailableError(f"no answer within {self._limit_s:g} s", maybe_applied=call.commit_sent)


class _Call:
    """One call on its way there and back."""

    def __init__(self, server: MemoryPostgres) -> None:
        self.commit_sent = False
        self._commit_arrives_late = False
        self._server = server
        self._link_generation = server.link_generation

    async def run(self, work: Callable[[Transaction], T]) -> T:
        await self._travel()
        transaction, result = await self._worked(work)
        try:
            await self._pause(self._server.faults.commit_pause_s())
            await self._commit(transaction)
        finally:
            if not self._commit_arrives_late:
                transaction.rollback()
        await self._travel()
        return result

    async def _worked(self, work: Callable[[Transaction], T]) -> tuple[Transaction, T]:
        """Do the work in a transaction that stays open; as often as a row's lock makes us wait."""
        while True:
            transaction = self._server.begin()
            try:
                return transaction, work(transaction)
            except RowLockedError as locked:
                transaction.rollback()
                await locked.holder.ended.wait()
                await self._pause(0)
            except BaseException:
                transaction.rollback()
                raise

    async def _commit(self, transaction: Transaction) -> None:
        """Nobody can call COMMIT back: when the caller gives up while it travels, it arrives all the same."""
        faults = self._server.faults
        self.commit_sent = True
        if faults.lose_next_request:
            faults.lose_next_request = False
            raise self._lost()
        try:
            await self._travel()
        except trio.Cancelled:
            self._commit_arrives_late = True
            faults.when_thawed(transaction.commit_late)
            raise
        transaction.commit()
        if faults.lose_next_answer:
            faults.lose_next_answer = False
            raise self._lost()

    async def _travel(self) -> None:
        await self._pause(self._server.faults.latency_s())

    async def _pause(self, seconds: float) -> None:
        """Time passes; then the connection must still be there."""
        await trio.sleep(seconds)
        await self._server.faults.until_thawed()
        if self._server.faults.away or self._server.link_generation != self._link_generation:
            raise self._lost()

    def _lost(self) -> UnavailableError:
        return UnavailableError("the connection broke", maybe_applied=self.commit_sent)
