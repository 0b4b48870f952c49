"""Jobs that come into a table: from the rows of the store to records, and to the time that each fires first.

Where a job goes on is decided by a stand (T, X): what was fired before. Nothing fired may be left out, so:

    schedule_xid ≥ X    this state of the schedule may be unknown to whoever fired: from `effective_from` on
    schedule_xid < X    all with a fire time up to T was fired: after T, but never before `effective_from`

T compares with fire times, `effective_from` with scheduled ones; where there is jitter, the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from shardwheel.job import JobEntry
from shardwheel.missed import fire_time, first_due_after
from shardwheel.shard.table import Records
from shardwheel.shard.terms import AllTerms, Times
from shardwheel.times import END_MS
from shardwheel.timing import Timing

ARRIVAL: Final = np.dtype(
    [
        ("job_id", "V16"),
        ("partition", "u2"),
        ("version", "i8"),
        ("terms", "u4"),
        ("anchor_ms", "i8"),
        ("start_ms", "i8"),
        ("last_ms", "i8"),
        ("schedule_no", "i8"),
        ("schedule_xid", "i8"),
        ("effective_from_ms", "i8"),
        ("scheduled_ms", "i8"),
    ]
)
# Of these a record has what the entry has, unchanged.
_TAKEN_AS_THEY_ARE: Final = (
    "partition",
    "version",
    "anchor_ms",
    "schedule_no",
    "schedule_xid",
    "effective_from_ms",
)


class Stand(NamedTuple):
    """What was fired before: through T, of all states of schedules with an xid below X.

    At a take-over the stored watermark and horizon; later the wheel's own stand and the feed's horizon.
    """

    fired_through_ms: int
    horizon_xid: int


def records_of(entries: Sequence[JobEntry], terms: Sequence[int]) -> Records:
    """The entries, which have these terms, as records."""
    columns = dict(zip(JobEntry._fields, zip(*entries, strict=True), strict=True))
    jobs = np.zeros(len(entries), ARRIVAL)
    jobs["job_id"] = np.frombuffer(b"".join(columns["job_id"]), "V16")
    jobs["terms"] = terms
    for name in _TAKEN_AS_THEY_ARE:
        jobs[name] = columns[name]
    jobs["start_ms"] = [0 if time_ms is None else time_ms for time_ms in columns["start_ms"]]
    jobs["last_ms"] = [END_MS if time_ms is None else time_ms for time_ms in columns["last_ms"]]
    return jobs


def first_times(jobs: Records, stands: Mapping[int, Stand], terms: AllTerms) -> Times:
    """The first scheduled time to fire of each job; END_MS where there is none."""
    through_ms, horizon_xids = _by_partition(jobs, stands)
    is_known = jobs["schedule_xid"] < horizon_xids
    after_ms = jobs["effective_from_ms"] - 1
    after_ms = np.where(is_known, np.maximum(after_ms, through_ms), after_ms)
    after_ms = np.maximum(after_ms, jobs["start_ms"] - 1)
    first_ms = terms.next_times(jobs["terms"], after_ms, jobs["anchor_ms"])
    for at in np.flatnonzero(is_known & (terms.jitters_ms(jobs["terms"]) > 0)).tolist():
        first_ms[at] = _first_jittered_time(jobs[at], int(through_ms[at]), terms)
    first_ms[first_ms > jobs["last_ms"]] = END_MS
    return first_ms


def fire_times(job_ids: Records, jobs: Records, scheduled_ms: Times, terms: AllTerms) -> Times:
    """Scheduled times plus their jitter."""
    jitters_ms = terms.jitters_ms(jobs["terms"])
    jittered = np.flatnonzero(jitters_ms).tolist()
    if not jittered:
        return scheduled_ms
    dues_ms = scheduled_ms.copy()
    for at in jittered:
        schedule, anchor_ms = terms[int(jobs["terms"][at])].schedule, int(jobs["anchor_ms"][at])
        job_id, jitter_ms = job_ids[at].item(), int(jitters_ms[at])
        dues_ms[at] = fire_time(schedule, job_id, int(scheduled_ms[at]), anchor_ms, jitter_ms)
    return dues_ms


def _by_partition(jobs: Records, stands: Mapping[int, Stand]) -> tuple[Times, Times]:
    """T and X of each job's partition."""
    known = np.zeros((max(stands) + 1, 2), np.int64)
    for partition, stand in stands.items():
        known[partition] = stand
    of_each = known[jobs["partition"]]
    return of_each[:, 0], of_each[:, 1]


def _first_jittered_time(job: np.void, through_ms: int, terms: AllTerms) -> int:
    schedule, _, jitter_ms, _ = terms[int(job["terms"])]
    timing = Timing(schedule, int(job["anchor_ms"]), int(job["start_ms"]), int(job["last_ms"]))
    from_ms = int(job["effective_from_ms"])
    return first_due_after(timing, job["job_id"].item(), jitter_ms, through_ms, from_ms, END_MS)
