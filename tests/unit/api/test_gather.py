"""Sharing a transaction: who waits together, who is refused alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from shardwheel.api import gather as module
from shardwheel.api.gather import Gather
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.store.tenant_pool import TenantPool


class SlowPool:
    """Runs the work when the test says so; `calls` holds what each transaction was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []
        self.go_on = asyncio.Event()

    async def run(self, tenant: str, work: Any, items: list[Any]) -> Any:
        self.calls.append((tenant, items))
        await self.go_on.wait()
        return work(None, tenant, items)


def double(_conn: Any, _tenant: str, items: Sequence[int]) -> list[int]:
    if 13 in items:
        raise UsageError("13 is refused", field="number")
    if 99 in items:
        raise UnavailableError("out of reach")
    return [2 * item for item in items]


def gathering(pool: SlowPool, most: int = 100, pause_s: float = 0.0) -> Gather[int, int]:
    return Gather(cast(TenantPool, pool), double, most=most, pause_s=pause_s)


async def ask_all(pool: SlowPool, gather: Gather[int, int], *asked: tuple[str, int]) -> list[Any]:
    tasks = [asyncio.create_task(gather.ask(tenant, item)) for tenant, item in asked]
    while not pool.calls:
        await asyncio.sleep(0)
    pool.go_on.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_the_first_goes_alone_and_those_behind_it_together() -> None:
    async def main() -> None:
        pool = SlowPool()
        gather = gathering(pool, most=3)
        first = asyncio.create_task(gather.ask("a", 1))
        while not pool.calls:
            await asyncio.sleep(0)
        assert pool.calls == [("a", [1])]
        others = await ask_all(pool, gather, *[("a", number) for number in (2, 3, 4, 5)])
        assert (await first, others) == (2, [4, 6, 8, 10])
        assert pool.calls == [("a", [1]), ("a", [2, 3, 4]), ("a", [5])]

    asyncio.run(main())


def test_who_asks_again_shares_with_those_who_waited_meanwhile() -> None:
    async def main() -> None:
        pool = SlowPool()
        gather = gathering(pool, pause_s=0.1)

        async def asks_again() -> list[int]:
            first = await gather.ask("a", 1)
            for _ in range(10):  # On its way.
                await asyncio.sleep(0)
            return [first, await gather.ask("a", 3)]

        again = asyncio.create_task(asks_again())
        while not pool.calls:
            await asyncio.sleep(0)
        assert (await ask_all(pool, gather, ("a", 2)), await again) == ([4], [2, 6])
        assert pool.calls == [("a", [1]), ("a", [2, 3])]

    asyncio.run(main())


def test_tenants_never_share() -> None:
    async def main() -> None:
        pool = SlowPool()
        assert await ask_all(pool, gathering(pool), ("a", 1), ("b", 2), ("a", 3)) == [2, 4, 6]
        assert sorted(pool.calls) == [("a", [1, 3]), ("b", [2])]

    asyncio.run(main())


def test_a_refusal_is_only_its_own() -> None:
    async def main() -> None:
        pool = SlowPool()
        answers = await ask_all(pool, gathering(pool), ("a", 1), ("a", 13), ("a", 2))
        assert (answers[0], answers[2]) == (2, 4)
        assert isinstance(answers[1], UsageError)
        assert pool.calls == [("a", [1, 13, 2]), ("a", [1]), ("a", [13]), ("a", [2])]

    asyncio.run(main())


def test_out_of_reach_is_everybodys_and_not_tried_again() -> None:
    async def main() -> None:
        pool = SlowPool()
        answers = await ask_all(pool, gathering(pool), ("a", 1), ("a", 99))
        assert [type(answer) for answer in answers] == [UnavailableError, UnavailableError]
        assert len(pool.calls) == 1
        # And the next one finds a lane that works.
        assert await gathering(pool).ask("a", 4) == 8

    asyncio.run(main())


def test_too_many_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)

    async def main() -> None:
        pool = SlowPool()
        answers = await ask_all(pool, gathering(pool), *[("a", number) for number in (1, 2, 3)])
        assert answers[:2] == [2, 4] and isinstance(answers[2], UnavailableError)

    asyncio.run(main())
