"""Who may have how many of the slots that are free, when not all can have what they want.

Stride scheduling: everybody has a mark, and moves it by 1/weight for each slot given. The next slot goes to
whoever wants one and has the lowest mark, of equals to the first: of 15 slots that all four priorities want,
critical gets 8, high 4, normal 2 and low 1, in whatever portions they come free. Who wants nothing gives its
share to the others and saves nothing up: when it comes back, its mark is no lower than theirs.

    weights 2, 1    all want    slots one by one: a b a  a b a  a b a …
                    b is idle   a a a a;  b comes back: a b a  a b a …     (not: b b b b)

Pure: no clock, no waiting. `slots` waits.
"""

from __future__ import annotations

from collections.abc import Sequence


class Sharing:
    def __init__(self, weights: Sequence[int]) -> None:
        self._strides = [1 / weight for weight in weights]
        self._marks = [0.0 for _ in weights]

    def share(self, wanted: Sequence[int], free: int) -> list[int]:
        """How many of the free slots each is given: all of them, or all that is wanted."""
        if sum(wanted) <= free:
            self._marks = [0.0 for _ in wanted]  # There is enough for everybody: old debts are forgotten.
            return list(wanted)
        hungry = [index for index, count in enumerate(wanted) if count > 0]
        given = [0 for _ in wanted]
        for _ in range(free):
            index = min(hungry, key=self._marks.__getitem__)
            given[index] += 1
            self._marks[index] += self._strides[index]
            if given[index] == wanted[index]:
                hungry.remove(index)
        self._count_from(hungry)
        return given

    def _count_from(self, hungry: Sequence[int]) -> None:
        """All count from the lowest mark of those who still want some. Whoever is idle has saved nothing up
        meanwhile, and nobody owes anything for what was left to it by the idle."""
        lowest = min(self._marks[index] for index in hungry)
        self._marks = [max(0.0, mark - lowest) for mark in self._marks]
