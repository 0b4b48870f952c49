"""Each planted mistake is caught by the simulation within 300 seeds: the checker's own test.

A mutant's known seed comes first, so that this takes seconds. Where a change of the code made it survive that
seed, the others follow; a better seed then belongs into the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from tests.simulation import dag_mutants, gate_mutants, hold_mutants, ownership_mutants, shard_mutants
from tests.simulation.checker import ViolationError
from tests.simulation.planting import MUTANTS, planted
from tests.simulation.run import simulate
from tests.simulation.stories import Stories, told
from tests.simulation.world import has_dags, is_limited

# Imported for the mistakes that they register.
LISTS = (dag_mutants, gate_mutants, hold_mutants, ownership_mutants, shard_mutants)
SEEDS = 300
KNOWN_SEEDS = {
    "settle from T, not from the floor, and without the rule on X": 0,
    "pause and delete settle nothing": 8,
    "the claim compares the job's version": 303,
    "the claim does not lock the job": 7,
    "a result of an old attempt is taken": 4,
    "a catch-up does not pin T": 6,
    "all partitions are read since the newest of their snapshots": 7,
    "a take-over ignores Kafka's generation": 8,
    "a take-over compares T with scheduled times": 3,
    "a change is applied from now on, not from its effective_from": 2,
    "the watermark is stored before the acknowledgement": 3,
    "T is acknowledged, X is fresh": 48,
    "X is the snapshot's xmax": 2,
    "settle from the stored (T, X), not from the floor": 8,
    "the claim takes what runs already": 9,
    "the mirror is kept when Kafka's data was lost, or T went back": 11,
    "a refused owner whose key it is does not bump again": 2,
    "a loss of Kafka does not reset the stored watermark": 2,
    "a take-over goes back before effective_from": 12,
    "no rule on schedule_xid: every job goes on after T": 2,
    "effective_from of a once in the past is now": 4,
    "acknowledgements count out of order": 10,
    "a watermark is stored without a look at the epoch": 23,
    "the feed is a sequence: what commits late is never seen": 0,
    "a job's slot is freed between two attempts": 7,
    "what is cancelled or skipped keeps its slot": 19,
    "a result of an old attempt frees the slot of the current one": 67,
    "a hand-over gives the slot and forgets to let its new owner go on": 7,
    "nobody hands on a slot, and the sweep does not look for one": 7,
    "the claim does not see that a slot is taken": 7,
    "a breaker is probed by two at once": 35,
    "a job's slot is looked for, not taken by its key": 3,
    "each claim has a budget of its own": 41,
    "the sweep forgets who is held by a limit": 7,
    "the sweep forgets who is held by a breaker": 3,
    "nobody comes for what is held for want of a handler, nor lets it go": 3,
    "what is released runs without a claim": 3,
    "a breaker never closes": 3,
    "a breaker closes when its time is over, whatever the probe says": 31,
    "an open breaker is not looked at": 3,
    "the retry budget counts no retries": 3,
    "a crashed worker's slot is not freed": 7,
    "the claim does not lock the task type": 51,
    "an edit settles nothing": 4,
    "resume settles the paused span": 12,
    "a promoted mirror adopts the stored X": 24,
    "a job is completed at T, not at the claim floor": 11,
    "a run is not locked when a task of it ends": 53,
    "readiness is counted from the parents' rows, without the run's lock": 53,
    "a join is taken down once for two parents of one batch": 9,
    "results that are replayed count twice": 13,
    "a redelivered fire of a DAG begins its run again": 1,
    "a run goes on with its DAG's newest version": 25,
    "the children of what the claim found unfit to run are not told": 1,
    "the children of a task that the sweep ended are not told": 1,
    "the children of what was completed or skipped by hand are not told": 9,
    "the children of a cancelled task are not told": 13,
    "a cancelled run still queues children": 1,
    "what fails in a cancelled run is tried again": 21,
    "fail_fast lets everything else begin": 13,
    "a skipped parent lets its child run": 1,
    "a failed parent is forgotten when another one succeeds later": 1,
    "what was skipped for a failed task stays skipped when that one runs again": 21,
    "what runs again does not count its children's parents anew": 1,
    "a run that is over leaves its fire running": 1,
    "a fan-out is taken down once for two items of one batch": 17,
    "a failed item does not fail its fan-out": 17,
    "a skipped item does not skip its fan-out": 33,
    "a fan-out of an empty list waits for an item": 33,
    "the claim of a task does not look at its DAG's state": 29,
    "an end that was put off is told twice": 37,
    "a hand-over does not pin T": 12,
    "a shard's name is used again while its former owner lives": 11,
}


# What takes several mishaps in a row is caught by the seeds that tell of these, and of nothing else.
TOLD = {
    "acknowledgements count out of order": Stories.half_written,
    "T is acknowledged, X is fresh": Stories.unanswered,
    "a watermark is stored without a look at the epoch": Stories.stale_owner,
    "a new timeline of PostgreSQL is taken for the old one": Stories.claims_lost,
    "a result of an old attempt is taken": Stories.late_result,
    "the mirror drops what waits and is due": Stories.unread,
    "the mirror stands on T alone": Stories.unread,
    "a promoted mirror adopts the stored X": Stories.behind,
    "a catch-up does not pin T": Stories.backlog,
    "a hand-over does not pin T": Stories.slow_hand_over,
    "a job is completed at T, not at the claim floor": Stories.unclaimed,
    "a crashed worker's slot is not freed": Stories.late_result,
    "the claim floor is a time only": Stories.late_commit,
    "the children of a task that the sweep ended are not told": Stories.worn_out,
}


def is_caught(name: str, seed: int) -> bool:
    """Whether the seed breaks a rule with the mistake, and breaks none without it. (Where nothing else is
    given or told, test_seeds.py runs it without the mistake.)"""
    if not breaks_a_rule(name, seed, mistaken=True):
        return False
    is_plain = not MUTANTS[name].given() and name not in TOLD
    return is_plain or not breaks_a_rule(name, seed, mistaken=False)


def breaks_a_rule(name: str, seed: int, *, mistaken: bool) -> bool:
    try:
        with planted(name, mistaken=mistaken), told(TOLD.get(name)):
            simulate(seed)
    except ViolationError:
        return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mistake_is_caught(name: str) -> None:
    assert any(is_caught(name, seed) for seed in seeds_of(name))


def seeds_of(name: str) -> Iterator[int]:
    """The known one, then all that may catch it: what goes wrong in DAGs, or with limits, needs some."""
    kinds = {dag_mutants.__name__: has_dags, hold_mutants.__name__: is_limited}
    fits = kinds.get(MUTANTS[name].plant.__module__)
    others = [seed for seed in range(SEEDS) if (not has_dags(seed) if fits is None else fits(seed))]
    return chain([KNOWN_SEEDS.get(name, others[0])], others)
