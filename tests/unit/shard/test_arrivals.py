"""First times of a batch are those that each job would be given alone; terms are numbered, and let go."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

from shardwheel.job import JobEntry
from shardwheel.missed import first_due_after
from shardwheel.schedule import Definition, schedule_from, schedule_of
from shardwheel.shard.arrivals import Stand, first_times, records_of
from shardwheel.shard.holding import Holding
from shardwheel.shard.terms import AllTerms, said_by
from shardwheel.times import END_MS
from shardwheel.timing import Timing
from tests.unit.shard.entries import NOON_MS, at, entry, every, fires

HOUR_MS = 3_600_000
SCHEDULES = [
    schedule_from(definition).text
    for definition in (
        Definition(),
        Definition(never=True),
        Definition(every_ms=10),
        Definition(every_ms=700_001),
        Definition(every_ms=HOUR_MS, time_zone="Europe/Berlin", exclude=(date(2026, 11, 18),)),
        Definition(cron="*/7 * * * *"),
        Definition(cron="30 2 29 2 *", time_zone="Europe/Berlin"),
    )
]


def any_job(dice: random.Random) -> JobEntry:
    def near_noon(within_ms: int = HOUR_MS) -> int:
        return NOON_MS + dice.randrange(-within_ms, within_ms)

    fields: dict[str, Any] = {
        "job_id": dice.randbytes(16),
        "partition": dice.choice([7, 8]),
        "schedule": dice.choice(SCHEDULES),
        "anchor_ms": near_noon(),
        "start_ms": dice.choice([None, near_noon()]),
        "last_ms": dice.choice([None, near_noon(9 * HOUR_MS)]),
        "jitter_ms": dice.choice([0, 0, 5, 90_000]),
        "schedule_xid": dice.choice([99, 100, 101]),
        "effective_from_ms": near_noon(),
    }
    return entry(**fields)


def alone(job: JobEntry, stand: Stand) -> int:
    """The first time of one job, said as the design says it."""
    timing = Timing(schedule_of(job.schedule), job.anchor_ms, job.start_ms, job.last_ms)
    if job.schedule_xid >= stand.horizon_xid:
        first_ms = timing.next_after(job.effective_from_ms - 1)
        return END_MS if first_ms is None else first_ms
    through_ms, from_ms = stand.fired_through_ms, job.effective_from_ms
    return first_due_after(timing, job.job_id, job.jitter_ms, through_ms, from_ms, END_MS)


def test_the_first_times_of_many_are_those_of_each() -> None:
    dice = random.Random(1)
    jobs = [any_job(dice) for _ in range(1_000)]
    stands = {7: Stand(NOON_MS, 100), 8: Stand(NOON_MS - 1_234_567, 101)}
    terms = AllTerms()
    records = records_of(jobs, [terms.number_of(said_by(job)) for job in jobs])
    got = first_times(records, stands, terms).tolist()
    assert got == [alone(job, stands[job.partition]) for job in jobs]


def test_terms_that_no_job_has_any_more_are_forgotten() -> None:
    holding = Holding(8, NOON_MS - 1)
    for interval in range(10_000, 20_000, 100):
        if interval == 11_000:
            holding.take_jobs([every(1_000, job_id=b"s" * 16)], at(Stand(0, 0)))
        jobs = [every(interval + step, job_id=step.to_bytes(16, "big")) for step in range(100)]
        holding.take_jobs(jobs, at(Stand(0, 0)))
        holding.take_jobs([job._replace(active=False, version=2) for job in jobs], at(Stand(0, 0)))
    assert len(holding._table.terms) < 5_000
    out: list[Any] = []
    holding.due(NOON_MS + 1_000, out, [])
    assert [fire.scheduled_ms for fire in fires(out)] == [NOON_MS, NOON_MS + 1_000]
