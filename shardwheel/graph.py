"""The order of things that wait for each other, by their places in a list. Pure, and without recursion: a
chain of ten thousand is walked, not descended.

    shape_of([[], [0], [0], [1, 2]])      a diamond: order (0, 1, 2, 3), depth 3
    shape_of([[1], [0]])                  CycleError, with the cycle (0, 1)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple


class CycleError(Exception):
    """Some wait for each other: `cycle` are their places, each before the next, the last before the first."""

    def __init__(self, cycle: tuple[int, ...]) -> None:
        super().__init__(f"a cycle of {len(cycle)}")
        self.cycle = cycle


class Shape(NamedTuple):
    """Who waits for whom. `order`: parents before children; `depth`: how many are on the longest path."""

    parents: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    depth: int


def shape_of(parents: Sequence[Sequence[int]]) -> Shape:
    """Each place's parents in, the order out; what can go first goes first, by its place."""
    children: list[list[int]] = [[] for _ in parents]
    for child, its_parents in enumerate(parents):
        for parent in its_parents:
            children[parent].append(child)
    waits_for = [len(its_parents) for its_parents in parents]
    levels = [1] * len(parents)
    order: list[int] = []
    ready = deque(place for place, count in enumerate(waits_for) if not count)
    while ready:
        place = ready.popleft()
        order.append(place)
        for child in children[place]:
            levels[child] = max(levels[child], levels[place] + 1)
            waits_for[child] -= 1
            if not waits_for[child]:
                ready.append(child)
    if len(order) < len(parents):
        raise CycleError(_cycle(parents, [bool(count) for count in waits_for]))
    return Shape(tuple(map(tuple, parents)), tuple(order), max(levels, default=0))


def _cycle(parents: Sequence[Sequence[int]], stuck: Sequence[bool]) -> tuple[int, ...]:
    """Whoever is stuck has a parent that is: going from parent to parent must come round."""
    place = next(place for place, is_stuck in enumerate(stuck) if is_stuck)
    path: dict[int, int] = {}
    while place not in path:
        path[place] = len(path)
        place = next(parent for parent in parents[place] if stuck[parent])
    around = list(path)[path[place] :][::-1]
    first = around.index(min(around))
    return tuple(around[first:] + around[:first])
