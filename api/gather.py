"""One transaction for whoever waits: requests of one tenant that come together share a commit.

While a transaction is under way the next ones gather; when it is over, they go all at once. One request alone
waits for nobody. An answer is still given only after its own commit. Without this, 16 connections make about
1,000 jobs a second here, and with it more than twice as many (docs/decisions/0010).

If a shared transaction is refused for what one of them asked, each is done again on its own: nobody gets
another's refusal.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.store.link import Connection
from shardwheel.store.tenant_pool import TenantPool

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_WAITING = 2_000


class Gather(Generic[Item, Answer]):
    """`work` answers many items of a tenant in one transaction, in their order."""

    def __init__(
        self,
        pool: TenantPool,
        work: Callable[[Connection, str, Sequence[Item]], Sequence[Answer]],
        *,
        most: int = 100,
        pause_s: float = 0.0,
    ) -> None:
        """`pause_s`: how long a lane rests before its next transaction, for those who were answered just now
        and ask again. Without it they would come right behind those who waited meanwhile, and half as many
        would share each commit. Who finds nobody waiting does not pay it."""
        self._pool = pool
        self._work = work
        self._most = most
        self._pause_s = pause_s
        self._waiting: defaultdict[str, deque[tuple[Item, asyncio.Future[Answer]]]] = defaultdict(deque)
        self._lanes: dict[str, asyncio.Task[None]] = {}

    async def ask(self, tenant: str, item: Item) -> Answer:
        waiting = self._waiting[tenant]
        if len(waiting) >= MOST_WAITING:
            raise UnavailableError("too many requests wait; try again in a moment")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting.append((item, future))
        if tenant not in self._lanes:
            self._lanes[tenant] = asyncio.create_task(self._lane(tenant))
        return await future

    async def _lane(self, tenant: str) -> None:
        """Runs for as long as somebody of this tenant waits."""
        waiting = self._waiting[tenant]
        try:
            while waiting:
                batch = [waiting.popleft() for _ in range(min(len(waiting), self._most))]
                await self._answer(tenant, batch)
                if waiting:
                    await asyncio.sleep(self._pause_s)
        finally:
            del self._lanes[tenant], self._waiting[tenant]

    async def _answer(self, tenant: str, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._pool.run(tenant, self._work, [item for item, _ in batch])
        except UsageError as error:
            if len(batch) == 1:
                _fail(batch, error)
            for one in batch if len(batch) > 1 else ():
                await self._answer(tenant, [one])
        except Exception as error:
            _fail(batch, error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def _fail(batch: Sequence[tuple[object, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
