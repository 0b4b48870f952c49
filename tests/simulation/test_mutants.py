"""Each planted mistake is caught by the simulation within 300 seeds: the checker's own test.

A mutant's known seed comes first, so that this takes seconds. Where a change of the code made it survive that
seed, the others follow; a better seed then belongs into the list.
"""

from __future__ import annotations

from itertools import chain

import pytest

from tests.simulation.checker import ViolationError
from tests.simulation.mutants import MUTANTS, planted
from tests.simulation.run import simulate

SEEDS = 300
KNOWN_SEEDS = {
    "settle from T, not from the floor, and without the rule on X": 0,
    "settle from the stored (T, X), not from the floor": 0,
    "pause and delete settle nothing": 11,
    "an edit settles nothing": 0,
    "the claim floor is a time only": 9,
    "a loss of Kafka does not reset the stored watermark": 2,
    "a take-over ignores Kafka's generation": 2,
    "a take-over compares T with scheduled times": 3,
    "no rule on schedule_xid: every job goes on after T": 0,
    "a change is applied from now on, not from its effective_from": 0,
    "the feed is a sequence: what commits late is never seen": 0,
    "X is the snapshot's xmax": 0,
    "the claim does not look at schedule_no": 1,
    "the claim does not lock the job": 2,
    "the claim takes what runs already": 2,
    "effective_from of a once in the past is now": 1,
    "resume settles the paused span": 35,
}


def is_caught(name: str, seed: int) -> bool:
    try:
        with planted(name):
            simulate(seed)
    except ViolationError:
        return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mistake_is_caught(name: str) -> None:
    seeds = chain([KNOWN_SEEDS.get(name, 0)], range(SEEDS))
    assert any(is_caught(name, seed) for seed in seeds)
