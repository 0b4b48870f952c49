"""Turns: so many at once, the others in their order, and nobody waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from shardwheel.api import turns
from shardwheel.api.turns import Turns
from shardwheel.errors import UnavailableError


def test_so_many_at_once_and_the_others_in_their_order() -> None:
    async def main() -> None:
        places, begun = Turns(2), list[int]()
        go_on = [asyncio.Event() for _ in range(5)]

        async def ask(number: int) -> None:
            async with places.one():
                begun.append(number)
                await go_on[number].wait()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(number)) for number in range(5)]
            await asyncio.sleep(0)
            assert begun == [0, 1]
            for number in (1, 0, 2, 3, 4):
                go_on[number].set()
                await tasks[number]
        assert begun == [0, 1, 2, 3, 4]

    asyncio.run(main())


def test_one_that_fails_leaves_its_place() -> None:
    async def main() -> None:
        places = Turns(1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with places.one():
                    raise ZeroDivisionError

    asyncio.run(main())


@pytest.mark.parametrize("limit", ["MOST_WAITING", "WAIT_LIMIT_S"])
def test_who_would_wait_too_long_is_told(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        places = Turns(1)
        async with places.one():
            monkeypatch.setattr(turns, limit, 0)
            with pytest.raises(UnavailableError, match="try again"):
                async with places.one():
                    pass
        monkeypatch.undo()
        async with places.one():
            pass

    asyncio.run(main())
