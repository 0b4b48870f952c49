"""A job's own timing: a shared schedule with the job's anchor and bounds. Never reads a clock.

`max_runs` becomes a last time, the k-th from the moment the schedule takes effect, so that a tick needs
no count. Only the store knows that moment: `PostedTiming.timing_from` takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shardwheel.schedule import END_MS, Schedule


class Timing(NamedTuple):
    """When one job runs: `start_ms <= time <= last_ms`, None for no bound. The shard keeps the parts in
    columns; whoever holds only one job holds this."""

    schedule: Schedule
    anchor_ms: int = 0
    start_ms: int | None = None
    last_ms: int | None = None

    def next_after(self, after_ms: int) -> int | None:
        return next_within(self.schedule, after_ms, self.anchor_ms, self.start_ms, self.last_ms)

    def times_between(self, after_ms: int, through_ms: int) -> Iterator[int]:
        """The times with after_ms < time <= through_ms, in order, within the job's bounds."""
        return self.schedule.times_between(*self._within(after_ms, through_ms), self.anchor_ms)

    def count_between(self, after_ms: int, through_ms: int) -> int:
        return self.schedule.count_between(*self._within(after_ms, through_ms), self.anchor_ms)

    def _within(self, after_ms: int, through_ms: int) -> tuple[int, int]:
        if self.start_ms is not None and after_ms < self.start_ms:
            after_ms = self.start_ms - 1
        if self.last_ms is not None and through_ms > self.last_ms:
            through_ms = self.last_ms
        return after_ms, through_ms


def next_within(
    schedule: Schedule, after_ms: int, anchor_ms: int, start_ms: int | None, last_ms: int | None
) -> int | None:
    """The first time strictly after this one, within a job's bounds (both included)."""
    if start_ms is not None and after_ms < start_ms:
        after_ms = start_ms - 1
    next_ms = schedule.next_after(after_ms, anchor_ms)
    if next_ms is None or (last_ms is not None and next_ms > last_ms):
        return None
    return next_ms


class PostedTiming(NamedTuple):
    """A job's timing as posted and checked. `max_runs` waits for the moment it counts from."""

    schedule: Schedule
    anchor_ms: int
    start_ms: int | None
    end_ms: int | None
    max_runs: int | None
    jitter_ms: int

    def timing_from(self, effective_from_ms: int, runs_before: int = 0) -> Timing:
        """The timing once the schedule takes effect. `runs_before`: times of former schedules since the
        job's creation, which count against `max_runs`."""
        last_ms = self.end_ms
        if self.max_runs is not None:
            limit_ms = self._last_of(self.max_runs - runs_before, effective_from_ms)
            last_ms = limit_ms if last_ms is None else min(last_ms, limit_ms)
        return Timing(self.schedule, self.anchor_ms, self.start_ms, last_ms)

    def _last_of(self, runs: int, effective_from_ms: int) -> int:
        if runs <= 0:
            return effective_from_ms - 1
        first_ms = max(effective_from_ms, self.start_ms or 0)
        last_ms = self.schedule.nth_after(first_ms - 1, runs, self.anchor_ms)
        return END_MS - 1 if last_ms is None else last_ms
