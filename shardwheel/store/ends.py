"""`EndStore`: what follows an execution's end, on a pool of its own: whatever it waits for, no result does.
One line a method, as in `PostgresStore`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from shardwheel.execution import Callback, UnpublishedLetter
from shardwheel.keeping import Keep
from shardwheel.store import callbacks, letter_topic, retention
from shardwheel.store.pool import Pool


class EndStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def take_callbacks(self, most: int, busy: Collection[str]) -> list[Callback]:
        return await self._pool.run(callbacks.take_callbacks, most, busy)

    async def callback_delivered(self, callback: Callback) -> None:
        await self._pool.run(callbacks.callback_delivered, callback)

    async def callback_failed(self, callback: Callback, problem: str, pause: timedelta | None) -> None:
        await self._pool.run(callbacks.callback_failed, callback, problem, pause)

    async def take_letters(self, most: int) -> list[UnpublishedLetter]:
        return await self._pool.run(letter_topic.take_letters, most)

    async def letters_published(self, letter_ids: Sequence[bytes]) -> None:
        await self._pool.run(letter_topic.letters_published, letter_ids)

    async def retire_executions(self, keep: Keep, after: bytes) -> retention.Retired:
        return await self._pool.run(retention.retire_executions, keep, after)

    async def retire_others(self, name: str, keep: Keep) -> int:
        return await self._pool.run(retention.retire_others, name, keep)

    async def drop_empty_months(self, keep: Keep) -> list[str]:
        return await self._pool.run(retention.drop_empty_months, keep)
