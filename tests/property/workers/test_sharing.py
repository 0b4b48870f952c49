"""Sharing slots, whatever is wanted: all are used, nobody gets more than it wants, nobody starves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardwheel.workers.sharing import Sharing

WEIGHTS = (8, 4, 2, 1)
wants = st.lists(st.integers(0, 30), min_size=4, max_size=4)
rounds = st.lists(st.tuples(wants, st.integers(0, 40)), max_size=40)


@given(rounds)
def test_all_that_is_free_is_given_and_nobody_gets_more_than_it_wants(
    rounds: list[tuple[list[int], int]],
) -> None:
    sharing = Sharing(WEIGHTS)
    for wanted, free in rounds:
        shares = sharing.share(wanted, free)
        assert sum(shares) == min(free, sum(wanted))
        assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))


@given(rounds, st.integers(0, 3), st.lists(st.integers(1, 20), min_size=1, max_size=30))
def test_whatever_was_before_the_hungry_get_their_share(
    before: list[tuple[list[int], int]], idle: int, portions: list[int]
) -> None:
    """Of slots that all but one want, each gets its weight's share, give or take a few: so nobody waits for
    more than a bounded number of them, however much it had before."""
    sharing = Sharing(WEIGHTS)
    for wanted, free in before:
        sharing.share(wanted, free)
    wanted = [0 if index == idle else 10_000 for index in range(4)]
    got = [0, 0, 0, 0]
    for portion in [*portions, 150]:
        got = [sum(pair) for pair in zip(got, sharing.share(wanted, portion), strict=True)]
    weight = sum(WEIGHTS) - WEIGHTS[idle]
    for index in set(range(4)) - {idle}:
        fair = sum(got) * WEIGHTS[index] / weight
        assert abs(got[index] - fair) <= WEIGHTS[index] + 2


@given(st.lists(st.integers(1, 20), min_size=1, max_size=60))
def test_from_the_start_the_shares_are_those_of_the_weights(portions: list[int]) -> None:
    sharing = Sharing(WEIGHTS)
    got = [0, 0, 0, 0]
    for portion in portions:
        got = [sum(pair) for pair in zip(got, sharing.share([1_000] * 4, portion), strict=True)]
    for count, weight in zip(got, WEIGHTS, strict=True):
        assert abs(count - sum(portions) * weight / 15) <= 3


@given(st.integers(1, 2_000))
def test_who_was_idle_has_saved_nothing_up(slots_before: int) -> None:
    sharing = Sharing(WEIGHTS)
    for _ in range(slots_before):
        sharing.share([100, 0, 100, 100], 1)
    got = [0, 0, 0, 0]
    for _ in range(15):
        got = [sum(pair) for pair in zip(got, sharing.share([100] * 4, 1), strict=True)]
    assert 3 <= got[1] <= 5
    assert got[0] >= 6
