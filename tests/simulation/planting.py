"""Mistakes, planted one at a time in our code: each turns one sentence of design.md off, and must be caught.

The list is that of shared/model/mutants.py, and more: `gate_mutants` are of what people's changes, the claim
and the settling of results do, `shard_mutants` of what a shard does. Only tests can reach these switches.

Left out, since no seed has caught them yet (some 80 each): a mirror that drops waiting executions which are
due (the sweep publishes them again, only later), one that looks at T alone, a take-over that adopts the
stored X, a catch-up that does not pin T. Not written yet: a shard's name that is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from shardwheel.memory.connection import STATEMENTS, Statement

FOREVER_XID = 2**62
Mutant = Callable[[], Any]
MUTANTS: dict[str, Mutant] = {}


def mutant(name: str) -> Callable[[Mutant], Mutant]:
    def register(plant: Mutant) -> Mutant:
        MUTANTS[name] = plant
        return plant

    return register


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The mistake is in the code while the block runs."""
    with ExitStack() as stack:
        for change in MUTANTS[name]():
            stack.enter_context(change)
        yield


def statement_replaced(name: str, function: Statement) -> Any:
    return patch.dict(STATEMENTS, {name: function})
