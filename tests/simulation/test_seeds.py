"""The simulation in `make test`: 300 seeds. One that fails is named, and replays exactly:

python -m tests.simulation --seed K
"""

from __future__ import annotations

import pytest

from tests.simulation.run import simulate

SEEDS = 300
CHUNK = 20


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_rules_hold_under_every_fault(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            outcome = simulate(seed)
        except Exception as error:
            raise AssertionError(
                f"seed {seed} (python -m tests.simulation --seed {seed}): {error}"
            ) from error
        assert outcome.ended_at_s > 0


def test_a_seed_replays_exactly() -> None:
    assert simulate(7) == simulate(7)


def test_the_seeds_do_something() -> None:
    """A checker that has nothing to look at would find nothing."""
    outcomes = [simulate(seed) for seed in range(5)]
    assert sum(outcome.times for outcome in outcomes) > 100
    assert sum(outcome.claims for outcome in outcomes) > 100
    assert sum(simulate(seed).dag_tasks for seed in (1, 5, 9)) > 100
