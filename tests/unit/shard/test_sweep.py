"""A round of the sweep: what one part of it can't do keeps no other from being done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from trio.testing import trio_test

from shardwheel.errors import RefusedError, UnavailableError
from shardwheel.execution import FIRST_ENDING, FIRST_PAGES, Counts, Resolved, Settled
from shardwheel.ports import Bus
from shardwheel.shard.sweep import Sweep, SweepStore

MINE = [3, 7]
ANSWERS: dict[str, Any] = {
    "sweep_lost": Settled({}, 0, {}),
    "sweep_tasks": Settled({}, 0, {}),
    "sweep_runs": (Resolved(), b"r" * 16),
    "sweep_put_off": Resolved(),
    "sweep_held": FIRST_PAGES,
    "sweep_completed": (0, FIRST_ENDING),
    "counts": Counts({}, 0),
}


class Tables:
    """What was asked of the store, by name; some of it fails."""

    def __init__(self, **failures: Exception) -> None:
        self.failures = failures
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*_given: object) -> Any:
            self.asked.append(name)
            if name in self.failures:
                raise self.failures[name]
            return ANSWERS.get(name, 0)

        return ask


async def _nothing(*_given: object) -> Any:
    return {}


async def _generation(*_given: object) -> str:
    return "g"


def sweep_of(tables: Tables) -> Sweep:
    bus = SimpleNamespace(generation=_generation, committed_offsets=_nothing, end_offsets=_nothing)
    return Sweep(cast(SweepStore, tables), cast(Bus, bus), 2, lambda: None)


@trio_test
async def test_a_round_asks_for_everything() -> None:
    tables = Tables()
    await sweep_of(tables).run_once(MINE)
    assert set(ANSWERS) | {"expand_work", "sweep_overdue", "sweep_slots", "make_months"} == set(tables.asked)


@pytest.mark.parametrize("part", ["sweep_runs", "sweep_put_off"])
@trio_test
async def test_a_run_that_is_too_much_for_a_transaction_keeps_nothing_else_waiting(part: str) -> None:
    tables = Tables(**{part: UnavailableError("PostgreSQL did not answer within 10 s")})
    sweep = sweep_of(tables)
    with pytest.raises(UnavailableError):
        await sweep.run_once(MINE)
    assert tables.asked[-2:] == ["sweep_lost", "sweep_tasks"]
    assert {"sweep_overdue", "sweep_slots", "make_months"} <= set(tables.asked)
    await sweep.run_once(MINE)  # It is not tried again at once.
    assert tables.asked.count(part) == 1


@pytest.mark.parametrize("part", ["sweep_runs", "sweep_put_off", "sweep_tasks"])
@trio_test
async def test_a_run_that_is_refused_ends_no_shard(part: str) -> None:
    """Whoever owns the partition next would be refused it too."""
    tables = Tables(**{part: RefusedError("NumericValueOutOfRange: out of range")})
    await sweep_of(tables).run_once(MINE)
    assert {"sweep_lost", "sweep_tasks"} <= set(tables.asked)
