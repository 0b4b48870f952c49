"""Catching up: what was put off is told while the breaker is closed; a run that is refused stops no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import RefusedError, UnavailableError
from shardwheel.execution import Resolved, Told
from shardwheel.results.catching_up import PAUSE_S, CatchingUp
from shardwheel.results.lag import OPEN_ABOVE, LagBreaker
from shardwheel.service import Service

PAGE = 2


class Owed:
    """Runs with how many ends each has yet to be told of; three at once."""

    def __init__(self, **owed: int) -> None:
        self.owed = {name.encode(): ends for name, ends in owed.items()}
        self.refused: set[bytes] = set()
        self.too_large: set[bytes] = set()
        self.asked = 0
        self.away = False
        # How many runs one transaction has the time for.
        self.most = PAGE
        self.breaker = LagBreaker()

    async def runs_put_off(self, after: bytes) -> list[bytes]:
        await trio.lowlevel.checkpoint()
        if self.away:
            raise UnavailableError("PostgreSQL is away")
        return sorted(run_id for run_id in self.owed if run_id > after)[:PAGE]

    async def tell_runs(self, run_ids: Sequence[bytes]) -> Told:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        if len(run_ids) > self.most or self.too_large & set(run_ids):
            raise UnavailableError("PostgreSQL did not answer within 10 s")
        if self.refused & set(run_ids):
            raise RefusedError("NumericValueOutOfRange: out of range")
        told = 0
        for run_id in run_ids:
            taken = min(3 - told, self.owed.get(run_id, 0))
            told += taken
            self.owed[run_id] = self.owed.get(run_id, 0) - taken
        self.owed = {run_id: ends for run_id, ends in self.owed.items() if ends}
        return Told(told, Resolved(frozenset({7})))


def catching_up(store: Owed) -> tuple[CatchingUp, Service, list[int]]:
    service, poked = Service("results"), list[int]()

    def poke(partitions: Iterable[int]) -> None:
        poked.extend(partitions)

    return CatchingUp(service, store, store.breaker, poke), service, poked


@trio_test
async def test_everything_is_told_and_owners_hear_of_it() -> None:
    store = Owed(a=7, b=1, c=1, d=2)
    catching, _, poked = catching_up(store)
    assert await catching.run_once() == 11
    assert (store.owed, set(poked)) == ({}, {7})
    assert await catching.run_once() == 0


@trio_test
async def test_a_run_that_is_refused_stops_no_other() -> None:
    store = Owed(a=1, b=1, c=1, d=1)
    store.refused = {b"a", b"c"}
    catching, _, _ = catching_up(store)
    assert await catching.run_once() == 2
    assert sorted(store.owed) == [b"a", b"c"]
    store.refused = set()
    assert await catching.run_once() == 2


@trio_test
async def test_what_one_transaction_has_no_time_for_is_told_by_halves() -> None:
    store = Owed(a=1, b=4, c=1)
    store.most = 1
    catching, _, _ = catching_up(store)
    assert await catching.run_once() == 6
    assert store.owed == {}


@trio_test
async def test_a_run_that_is_too_much_for_a_transaction_stops_no_other() -> None:
    store = Owed(a=1, b=1, c=1, d=1)
    store.too_large = {b"a"}
    catching, _, _ = catching_up(store)
    assert await catching.run_once() == 3
    assert list(store.owed) == [b"a"]


@trio_test
async def test_many_runs_that_are_too_much_stop_none_behind_them_for_long() -> None:
    """Several look as if the database were away: those behind have their turn at the next walk."""
    store = Owed(a=1, b=1, c=1, d=1, e=1, f=1)
    store.too_large = {b"a", b"b", b"c", b"d"}
    catching, _, _ = catching_up(store)
    with pytest.raises(UnavailableError):
        await catching.run_once()
    assert await catching.run_once() == 2
    assert sorted(store.owed) == sorted(store.too_large)


@trio_test
async def test_a_database_that_is_away_is_not_asked_run_by_run() -> None:
    store = Owed(**{f"{n:03}": 1 for n in range(100)})
    store.most = 0
    catching, _, _ = catching_up(store)
    with pytest.raises(UnavailableError):
        await catching.run_once()
    assert store.asked < 10


@trio_test
async def test_nothing_is_told_while_the_breaker_is_open() -> None:
    store = Owed(a=1)
    store.breaker.note(OPEN_ABOVE + 1)
    catching, _, _ = catching_up(store)
    assert await catching.run_once() == 0
    store.breaker.note(0)
    assert await catching.run_once() == 1


def test_it_goes_on_when_the_database_is_back() -> None:
    async def play() -> None:
        store = Owed(a=1)
        store.away = True
        catching, service, _ = catching_up(store)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catching._run)
            await trio.sleep(2.5 * PAUSE_S)
            assert store.owed
            store.away = False
            await trio.sleep(2 * PAUSE_S)
            assert not store.owed
            service.stop()

    trio.run(play, clock=MockClock(autojump_threshold=0))
