"""Each planted mistake is caught by the simulation within 300 seeds: the checker's own test.

A mutant's known seed comes first, so that this takes seconds. Where a change of the code made it survive that
seed, the others follow; a better seed then belongs into the list.
"""

from __future__ import annotations

from itertools import chain

import pytest

from tests.simulation import gate_mutants, shard_mutants
from tests.simulation.checker import ViolationError
from tests.simulation.planting import MUTANTS, planted
from tests.simulation.run import simulate
from tests.simulation.stories import Stories, told

# Imported for the mistakes that they register.
LISTS = (gate_mutants, shard_mutants)
SEEDS = 300
KNOWN_SEEDS = {
    "T is acknowledged, X is fresh": 48,
    "a watermark is stored without a look at the epoch": 16,
    "the claim compares the job's version": 4,
    "settle from T, not from the floor, and without the rule on X": 2,
    "pause and delete settle nothing": 1,
    "resume settles the paused span": 19,
    "the claim takes what runs already": 1,
    "the claim floor is a time only": 19,
    "a take-over ignores Kafka's generation": 8,
    "a take-over compares T with scheduled times": 12,
    "a change is applied from now on, not from its effective_from": 2,
    "the watermark is stored before the acknowledgement": 4,
    "X is the snapshot's xmax": 2,
    "settle from the stored (T, X), not from the floor": 6,
    "an edit settles nothing": 0,
    "the claim does not look at schedule_no": 2,
    "the claim does not lock the job": 7,
    "a loss of Kafka does not reset the stored watermark": 3,
    "a take-over goes back before effective_from": 8,
    "no rule on schedule_xid: every job goes on after T": 2,
    "effective_from of a once in the past is now": 1,
    "the feed is a sequence: what commits late is never seen": 2,
    "the mirror is kept when Kafka's data was lost, or T went back": 5,
    "acknowledgements count out of order": 2,
    "a result of an old attempt is taken": 1,
}


# What takes several mishaps in a row is caught by the seeds that tell of these, and of nothing else.
TOLD = {
    "acknowledgements count out of order": Stories.half_written,
    "T is acknowledged, X is fresh": Stories.unanswered,
    "a watermark is stored without a look at the epoch": Stories.stale_owner,
    "a new timeline of PostgreSQL is taken for the old one": Stories.claims_lost,
    "a result of an old attempt is taken": Stories.late_result,
}


def is_caught(name: str, seed: int) -> bool:
    try:
        with planted(name), told(TOLD.get(name)):
            simulate(seed)
    except ViolationError:
        return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mistake_is_caught(name: str) -> None:
    seeds = chain([KNOWN_SEEDS.get(name, 0)], range(SEEDS))
    assert any(is_caught(name, seed) for seed in seeds)
