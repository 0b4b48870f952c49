"""Mistakes, planted one at a time in our code: each turns one sentence of design.md off, and must be caught.

The list is that of shared/model/mutants.py, and more: `gate_mutants` are of what people's changes, the claim
and the settling of results do, `hold_mutants` of what limits hold and let go, `shard_mutants` of what a shard
fires and stores, `ownership_mutants` of how partitions are owned, mirrored and handed over, `dag_mutants` of
how DAG runs go on. Only tests can reach these switches.

Left out, since no seed has caught them, with how many were tried: a shard that starts again under its old
name after its death, or goes on under it when its lease is gone (60 each; every claim bumps the epoch, which
may be why), an epoch that is bumped without a comparison (40), a sweep that waits for a result which was lost
with Kafka's data (40), a claim that looks at one message of an id alone (100; test_claim.py has that one), a
DAG run that counts what it has not been told of (75; tests/contract/test_dag_put_off.py has that one).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from shardwheel.memory.connection import STATEMENTS, Statement

FOREVER_XID = 2**62
Plant = Callable[[], Any]


class Mutant(NamedTuple):
    """`given`: what holds besides, harmless by itself (a test says so), or the mistake would not be seen."""

    plant: Plant
    given: Plant


def _nothing() -> Any:
    return ()


MUTANTS: dict[str, Mutant] = {}


def mutant(name: str, *, given: Plant = _nothing) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        MUTANTS[name] = Mutant(plant, given)
        return plant

    return register


@contextmanager
def planted(name: str, *, mistaken: bool = True) -> Iterator[None]:
    """The mistake is in the code while the block runs; or only what is given besides."""
    found = MUTANTS[name]
    with ExitStack() as stack:
        for change in [*found.given(), *(found.plant() if mistaken else ())]:
            stack.enter_context(change)
        yield


def statement_replaced(name: str, function: Statement) -> Any:
    return patch.dict(STATEMENTS, {name: function})
