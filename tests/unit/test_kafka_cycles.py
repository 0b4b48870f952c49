"""Cycles on their way to Kafka: what travels together, and how far all of it has landed."""

from __future__ import annotations

import pytest
import trio
from trio.testing import trio_test

from shardwheel.cycles import Cycles
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.ports import Message


def messages(count: int) -> list[Message]:
    return [Message("topic", 0, b"key", b"%d" % number) for number in range(count)]


def test_cycles_between_two_departures_travel_together() -> None:
    cycles = Cycles(100)
    assert [cycles.take(messages(2)), cycles.take([]), cycles.take(messages(1))] == [1, 2, 3]
    flight = cycles.depart()
    assert flight is not None
    assert (flight.last_ticket, len(flight.messages), cycles.depart()) == (3, 3, None)


def test_the_prefix_waits_for_the_first_that_has_not_landed() -> None:
    told: list[int] = []
    cycles = Cycles(100, told.append)
    flights = []
    for size in (2, 3, 0):
        cycles.take(messages(size))
        flights.append(cycles.depart())
    first, second, empty = flights
    assert first and second and empty
    second.landed = True
    assert not cycles.settle()
    assert (cycles.acknowledged, cycles.room, cycles.under_way) == (0, 95, [first])
    first.landed = True
    assert cycles.settle()
    assert (cycles.acknowledged, cycles.room, cycles.settled, told) == (3, 100, True, [3])


def test_a_refused_cycle_leaves_no_trace() -> None:
    cycles = Cycles(5)
    cycles.take(messages(4))
    with pytest.raises(UnavailableError, match="no room for 2 messages: 4 of 5"):
        cycles.take(messages(2))
    assert (cycles.last_ticket, cycles.gathered, cycles.room) == (1, 4, 1)


@trio_test
async def test_close_ends_waiting_and_taking() -> None:
    cycles = Cycles(5)
    ticket = cycles.take(messages(1))

    async def wait() -> None:
        with pytest.raises(UnavailableError):
            await cycles.wait_acknowledged(ticket)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        cycles.close()
    with pytest.raises(UsageError):
        cycles.take([])
