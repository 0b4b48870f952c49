"""The order of random graphs, against the slowest way to find it: looking at all of them again and again."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from shardwheel.graph import CycleError, shape_of

Parents = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Parents:
    """Any edges at all, or only edges from smaller to greater after a shuffle: half of them have no cycle."""
    size = draw(st.integers(1, 9))
    names = draw(st.permutations(range(size)))
    acyclic = draw(st.booleans())
    parents: Parents = [[] for _ in range(size)]
    for child in range(size):
        known = st.integers(0, child - 1 if acyclic else size - 1)
        if child or not acyclic:
            parents[names[child]] = [names[at] for at in draw(st.lists(known, unique=True, max_size=4))]
    return parents


def naive_levels(parents: Parents) -> dict[int, int]:
    """The level of each that can ever run: one more than its deepest parent's."""
    levels: dict[int, int] = {}
    for _ in parents:
        for place, its_parents in enumerate(parents):
            if all(parent in levels for parent in its_parents):
                levels[place] = 1 + max((levels[parent] for parent in its_parents), default=0)
    return levels


@given(graphs())
def test_order_depth_and_cycles_are_those_of_the_naive_reference(parents: Parents) -> None:
    levels = naive_levels(parents)
    try:
        shape = shape_of(parents)
    except CycleError as error:
        assert len(levels) < len(parents)
        around = (*error.cycle, error.cycle[0])
        assert all(before in parents[after] for before, after in pairwise(around))
        assert len(set(error.cycle)) == len(error.cycle)
        return
    assert len(levels) == len(parents)
    assert shape.depth == max(levels.values())
    assert sorted(shape.order) == list(range(len(parents)))
    stands = {place: at for at, place in enumerate(shape.order)}
    assert all(stands[parent] < stands[child] for child in stands for parent in parents[child])


@given(st.integers(1, 30_000))
@settings(max_examples=10)
def test_a_cycle_as_long_as_you_like_needs_no_stack(length: int) -> None:
    try:
        shape_of([[(place - 1) % length] for place in range(length)])
    except CycleError as error:
        assert error.cycle == tuple(range(length))
    else:
        raise AssertionError("a ring has no order")
