"""What becomes of the times of a schedule that nobody fired in time. Pure; used by the tick and by edits.

A time is missed when its fire time is more than the grace past. Then, by the job's policy:

    grace 60 s, window 1 h, now 12:00; every 10 minutes, nothing fired since 10:25
    10:30 10:40 10:50 | 11:00 11:10 … 11:50 | 12:00
    beyond the window |  within the window  | not missed
    fire_all     skipped         run                  run
    fire_last    skipped         11:50 runs           run
    skip         skipped         skipped              run

Neighbouring times with one fate are one `Span`, so a span of a million costs no more than one of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shardwheel.job import Misfire
from shardwheel.schedule import Schedule, jitter_of
from shardwheel.timing import Timing


class Policy(NamedTuple):
    """What a job says of missed times."""

    misfire: str
    grace_ms: int
    window_ms: int


class Span(NamedTuple):
    """Neighbouring times, from `first_ms` to before `until_ms`: they run, or are skipped with a reason."""

    first_ms: int
    until_ms: int
    skip_as: str | None = None


def fire_time(schedule: Schedule, job_id: bytes, scheduled_ms: int, anchor_ms: int, jitter_ms: int) -> int:
    """A scheduled time plus its jitter."""
    if not jitter_ms:
        return scheduled_ms
    next_ms = schedule.next_after(scheduled_ms, anchor_ms)
    return scheduled_ms + jitter_of(job_id, scheduled_ms, jitter_ms, next_ms)


def first_due_after(
    timing: Timing, job_id: bytes, jitter_ms: int, threshold_ms: int, first_ms: int, until_ms: int
) -> int:
    """The first scheduled time from `first_ms` on whose fire time is after the threshold; `until_ms` if it
    is not before that. (Jitter never reorders: fire times are as sorted as scheduled ones.)"""
    after_ms = max(first_ms, threshold_ms - jitter_ms) - 1
    for scheduled_ms in timing.times_between(after_ms, until_ms - 1):
        if fire_time(timing.schedule, job_id, scheduled_ms, timing.anchor_ms, jitter_ms) > threshold_ms:
            return scheduled_ms
    return until_ms


def fates(
    timing: Timing, job_id: bytes, jitter_ms: int, policy: Policy, first_ms: int, until_ms: int, now_ms: int
) -> Iterator[Span]:
    """The fate of every time from `first_ms` to before `until_ms`, in order; spans may be empty."""
    fresh_ms = first_due_after(timing, job_id, jitter_ms, now_ms - policy.grace_ms - 1, first_ms, until_ms)
    window_ms = min(max(first_ms, now_ms - policy.window_ms), fresh_ms)
    yield Span(first_ms, window_ms, "catchup_window")
    if policy.misfire == Misfire.FIRE_ALL:
        yield Span(window_ms, until_ms)
        return
    run_ms = fresh_ms
    count = timing.count_between(window_ms - 1, fresh_ms - 1)
    if policy.misfire == Misfire.FIRE_LAST and count:
        run_ms = timing.schedule.nth_after(window_ms - 1, count, timing.anchor_ms) or fresh_ms
    yield Span(window_ms, run_ms, "misfire")
    yield Span(run_ms, until_ms)
