"""What many jobs say alike: schedule, topic, jitter, what becomes of missed times. Each set once, by number.

A table of jobs has a column of these numbers instead of an object a job; what a batch of due jobs asks of its
terms (is it missed? when is it next?) is then answered for all of them at once:

    number   terms                               step_ms       grace_ms   jitter_ms
       0     nobody's: a row that is no job            0     for ever           0
       1     every 30 s, short, normal            30,000       60,000           0
       2     once, short, normal                  endless      60,000           0
       3     0 9 * * 1-5 in Berlin, …              0: ask      60,000       5,000

An interval's next time is arithmetic, and a once is an interval that never comes round again. All other
schedules are asked, which is quick as long as their memo answers: jobs with the same terms share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardwheel.job import JobEntry
from shardwheel.missed import Policy
from shardwheel.schedule import EverySchedule, OnceSchedule, Schedule, schedule_of
from shardwheel.times import END_MS
from shardwheel.topics import job_topic

Times: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.uint32]
# What `_SAID` lists, as a `JobEntry` has it.
Said: TypeAlias = tuple[str, int, str, int, int, str, int]

NOBODY = 0
_ENDLESS_MS = 1 << 50
# So many unused terms are kept before anybody looks for them.
_SPARE = 4_096


class Terms(NamedTuple):
    schedule: Schedule
    topic: str
    jitter_ms: int
    policy: Policy


_SAID = ("schedule", "jitter_ms", "misfire", "misfire_grace_ms", "catchup_window_ms", "pool", "priority")
# Of an entry, what number its terms have is asked by this. A load asks it of every job, hence no function.
said_by: Callable[[JobEntry], Said] = itemgetter(*map(JobEntry._fields.index, _SAID))


class AllTerms:
    """The terms of a table's jobs, and columns of what is asked of many at once."""

    def __init__(self) -> None:
        self._numbers: dict[Said, int] = {}
        self._terms: list[Terms] = []
        self._step_ms = array("q", [0])
        self._grace_ms = array("q", [END_MS])
        self._jitter_ms = array("q", [0])

    def __len__(self) -> int:
        return len(self._terms)

    def __getitem__(self, number: int) -> Terms:
        return self._terms[number - 1]

    def find_all(self, entries: Iterable[JobEntry]) -> list[int | None]:
        """The number of the terms of each, if they are known."""
        return list(map(self._numbers.get, map(said_by, entries)))

    def number_of(self, said: Said) -> int:
        """The number of these terms; `UsageError` when their schedule can't be read here."""
        number = self._numbers.get(said)
        if number is None:
            text, jitter_ms, misfire, grace_ms, window_ms, pool, priority = said
            policy = Policy(misfire, grace_ms, window_ms)
            number = self._add(said, Terms(schedule_of(text), job_topic(pool, priority), jitter_ms, policy))
        return number

    def graces_ms(self, numbers: Numbers) -> Times:
        return _column(self._grace_ms).take(numbers)

    def jitters_ms(self, numbers: Numbers) -> Times:
        return _column(self._jitter_ms).take(numbers)

    def topics(self, numbers: Numbers) -> list[str]:
        terms = self._terms
        return [terms[number - 1].topic for number in numbers.tolist()]

    def next_times(self, numbers: Numbers, after_ms: Times, anchors_ms: Times) -> Times:
        """The first time strictly after this one, of each; END_MS when there is none."""
        steps_ms = _column(self._step_ms).take(numbers)
        next_ms = after_ms + steps_ms - (after_ms - anchors_ms) % np.maximum(steps_ms, 1)
        asked = np.flatnonzero(steps_ms == 0)
        if len(asked):
            terms = self._terms
            columns = (numbers[asked].tolist(), after_ms[asked].tolist(), anchors_ms[asked].tolist())
            next_ms[asked] = [
                END_MS if (found := terms[number - 1].schedule.next_after(after, anchor)) is None else found
                for number, after, anchor in zip(*columns, strict=True)
            ]
        return np.minimum(next_ms, END_MS)

    def is_crowded(self, jobs: int) -> bool:
        """Whether most terms must be without a job, with so many jobs there."""
        return len(self._terms) > 2 * jobs + _SPARE

    def keep(self, numbers: Iterable[int]) -> NDArray[np.uint32]:
        """Forget all terms but these, and number them anew: the new number of each old one."""
        said_by_number = {number: said for said, number in self._numbers.items()}
        kept = AllTerms()
        renumbered = np.zeros(len(self._terms) + 1, np.uint32)
        for number in numbers:
            renumbered[number] = kept._add(said_by_number[number], self[number])
        self.__dict__.update(kept.__dict__)
        return renumbered

    def _add(self, said: Said, terms: Terms) -> int:
        self._terms.append(terms)
        self._step_ms.append(_step_ms(terms.schedule))
        self._grace_ms.append(terms.policy.grace_ms)
        self._jitter_ms.append(terms.jitter_ms)
        self._numbers[said] = len(self._terms)
        return len(self._terms)


def _step_ms(schedule: Schedule) -> int:
    """An interval, if this is one throughout; 0 if the schedule must be asked."""
    if isinstance(schedule, OnceSchedule):
        return _ENDLESS_MS
    definition = schedule.definition
    if isinstance(schedule, EverySchedule) and not definition.exclude:
        return definition.every_ms or 0
    return 0


def _column(numbers: array[int]) -> Times:
    return np.frombuffer(numbers, np.int64)
