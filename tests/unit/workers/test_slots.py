"""Slots: nobody waits while there is room; scarce ones are shared by weight, and never given twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.job import Priority
from shardwheel.workers.slots import Slots


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@asynccontextmanager
async def open_slots(total: int) -> AsyncIterator[tuple[Slots, trio.Nursery]]:
    slots = Slots(total)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slots.run)
        yield slots, nursery
        nursery.cancel_scope.cancel()


@trio_test
async def test_while_there_is_room_nobody_waits(clock: MockClock) -> None:
    slots = Slots(10)  # Nobody deals: whoever had to wait would wait for ever.
    assert await slots.take(Priority.LOW, 6) == 6
    assert await slots.take(Priority.HIGH, 4) == 4
    slots.free(3)
    assert await slots.take(Priority.NORMAL, 3) == 3
    assert slots.taken == 10


@trio_test
async def test_what_is_left_is_given_before_all_that_is_wanted_is_free(clock: MockClock) -> None:
    async with open_slots(10) as (slots, _):
        assert await slots.take(Priority.LOW, 7) == 7
        assert await slots.take(Priority.NORMAL, 500) == 3


@trio_test
async def test_a_full_worker_serves_by_weight_and_starves_nobody(clock: MockClock) -> None:
    """Every priority always wants more than there is; slots come free one at a time and in handfuls."""
    for handful in (1, 7, 40):
        async with open_slots(40) as (slots, nursery):
            given: Counter[Priority] = Counter()
            most = 0

            async def want_on(priority: Priority, slots: Slots, given: Counter[Priority]) -> None:
                while True:
                    given[priority] += await slots.take(priority, 100)

            for priority in Priority:
                nursery.start_soon(want_on, priority, slots, given)
            await trio.sleep(1)
            given.clear()
            while sum(given.values()) < 1_500:
                slots.free(handful)
                await trio.sleep(1)
                most = max(most, slots.taken)
            assert most == 40
            assert abs(given[Priority.CRITICAL] - 800) <= 40
            assert abs(given[Priority.LOW] - 100) <= 10
            nursery.cancel_scope.cancel()


@trio_test
async def test_whoever_waits_gets_nothing_once_it_is_closed(clock: MockClock) -> None:
    async with open_slots(1) as (slots, nursery):
        await slots.take(Priority.HIGH, 1)
        answers: list[int] = []

        async def wait() -> None:
            answers.append(await slots.take(Priority.LOW, 1))

        nursery.start_soon(wait)
        await trio.sleep(1)
        slots.close()
        await trio.sleep(1)
        assert answers == [0]
        assert await slots.take(Priority.CRITICAL, 1) == 0
        assert slots.taken == 1


@trio_test
async def test_who_is_cancelled_while_it_waits_takes_nothing_along(clock: MockClock) -> None:
    async with open_slots(1) as (slots, _):
        await slots.take(Priority.HIGH, 1)
        with trio.move_on_after(1):
            await slots.take(Priority.LOW, 1)
        slots.free(1)
        await trio.sleep(1)
        assert slots.taken == 0
        await slots.until_free()


@trio_test
async def test_two_that_wait_with_one_priority_both_get_slots(clock: MockClock) -> None:
    async with open_slots(2) as (slots, nursery):
        given: list[int] = []

        async def want() -> None:
            given.append(await slots.take(Priority.LOW, 2))
            slots.free(given[-1])

        assert await slots.take(Priority.HIGH, 2) == 2
        for _ in range(3):
            nursery.start_soon(want)
        await trio.sleep(1)
        assert given == []
        slots.free(2)
        await trio.sleep(1)
        assert (given, slots.taken) == ([2, 2, 2], 0)
