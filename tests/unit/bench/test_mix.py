"""The mix is what contract.md says it is, the same for the same seed, and fires as often as asked."""

from __future__ import annotations

from itertools import islice

import pytest

from shardwheel.bench.mix import ZONES, cron_expressions, mix
from shardwheel.posting import JobPosting
from shardwheel.timing import Timing

NOW_MS = 1_793_000_000_000


def timings(count: int, rate_per_s: float) -> list[Timing]:
    """As the API would read the jobs."""
    postings = (JobPosting(**job.fields) for job in mix(count, NOW_MS, rate_per_s))
    return [posting.timing(NOW_MS).timing_from(NOW_MS) for posting in postings]


def test_the_same_seed_gives_the_same_jobs() -> None:
    assert list(mix(200, NOW_MS)) == list(mix(200, NOW_MS))
    assert list(mix(200, NOW_MS, seed=2)) != list(mix(200, NOW_MS))
    assert len({job.id for job in mix(2_000, NOW_MS)}) == 2_000


def test_the_shares_expressions_and_zones_are_those_of_the_contract() -> None:
    jobs = [job.fields for job in mix(30_000, NOW_MS)]
    for field, share in (("cron", 0.6), ("every", 0.2), ("run_at", 0.2)):
        assert abs(sum(field in job for job in jobs) / len(jobs) - share) < 0.02
    assert len({job["cron"] for job in jobs if "cron" in job}) >= 500
    assert {job["time_zone"] for job in jobs if "cron" in job} == set(ZONES)
    assert len(set(ZONES)) == 20
    assert len(set(cron_expressions())) == len(cron_expressions())


@pytest.mark.parametrize("rate_per_s", [5.0, 50.0, 500.0])
def test_all_jobs_together_fire_at_the_rate_that_was_asked_for(rate_per_s: float) -> None:
    begin_ms, minutes = NOW_MS + 600_000, 10
    fires = sum(
        timing.count_between(begin_ms, begin_ms + minutes * 60_000) for timing in timings(4_000, rate_per_s)
    )
    # Drawn jobs are as many as meant only on average: at 5 a second, 150 crons make half of the rate.
    assert abs(fires / (minutes * 60) / rate_per_s - 1) < 0.2


def test_schedules_are_shared() -> None:
    every = [timing for timing in timings(2_000, 12.0) if timing.schedule.kind == "every"]
    assert len({id(timing.schedule) for timing in every}) <= 16


def test_it_is_made_as_it_is_asked_for() -> None:
    assert len(list(islice(mix(10**9, NOW_MS), 3))) == 3
