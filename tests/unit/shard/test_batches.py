"""Many jobs in one holding: each fires as if it were alone, and a shadow of them passes over the same."""

from __future__ import annotations

import random
from typing import Any

from shardwheel.ids import fire_id
from shardwheel.job import JobEntry
from shardwheel.missed import fire_time
from shardwheel.ports import Message
from shardwheel.schedule import Definition, schedule_from, schedule_of
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.shard.mirror import Shadow
from shardwheel.timing import Timing
from shardwheel.wire import Fire, FireKind
from tests.unit.shard.entries import NOON_MS, at, every, fires, once, waiting

MINUTE_MS = 60_000
STEP_MS = 500


def some_jobs(count: int) -> list[JobEntry]:
    """Crons, intervals and onces; some with jitter, some with a last time."""
    dice = random.Random(count)
    minutely = schedule_from(Definition(cron="*/20 * * * * *")).text
    jobs = []
    for _ in range(count):
        fields: dict[str, Any] = {
            "job_id": dice.randbytes(16),
            "partition": dice.choice([7, 8]),
            "jitter_ms": dice.choice([0, 0, 0, 4_000]),
            "priority": dice.randrange(4),
            "schedule_no": dice.getrandbits(64) - 2**63 or 1,
        }
        last_ms = dice.choice([None, NOON_MS + dice.randrange(MINUTE_MS)])
        job = dice.choice(
            [
                every(dice.randrange(200, 5_000), **fields, last_ms=last_ms),
                every(1_000, **fields, last_ms=last_ms)._replace(schedule=minutely),
                once(NOON_MS + dice.randrange(MINUTE_MS), **fields),
            ]
        )
        jobs.append(job)
    return jobs


def expected(job: JobEntry, after_ms: int, through_ms: int) -> list[Fire]:
    timing = Timing(schedule_of(job.schedule), job.anchor_ms, job.start_ms, job.last_ms)
    found = []
    for scheduled_ms in timing.times_between(NOON_MS - 1, through_ms):
        due_ms = fire_time(timing.schedule, job.job_id, scheduled_ms, job.anchor_ms, job.jitter_ms)
        if after_ms < due_ms <= through_ms:
            name = fire_id(job.job_id, job.partition, scheduled_ms)
            ids = (name, job.job_id, job.partition, job.schedule_no)
            found.append(Fire(1, FireKind.FIRE, *ids, scheduled_ms, due_ms, 1))
    return found


def fired(holding: Holding, from_ms: int, through_ms: int) -> list[Message]:
    out: list[Message] = []
    for now_ms in range(from_ms, through_ms + 1, STEP_MS):
        holding.due(now_ms, out, [])
    return out


def by_id(found: list[Fire]) -> list[Fire]:
    return sorted(found, key=lambda fire: fire.execution_id)


def test_each_of_many_jobs_fires_exactly_its_times() -> None:
    jobs = some_jobs(400)
    holding = Holding(2, NOON_MS - 1)
    holding.take_jobs(jobs, at(Stand(0, 0)))
    holding.take_waiting(
        [waiting(NOON_MS + step, execution_id=step.to_bytes(16, "big")) for step in range(9)]
    )
    out = fired(holding, NOON_MS, NOON_MS + MINUTE_MS)
    from_jobs = [fire for fire in fires(out) if fire.schedule_no]
    assert len(out) == len(from_jobs) + 9
    wanted = [fire for job in jobs for fire in expected(job, NOON_MS - 1, NOON_MS + MINUTE_MS)]
    assert by_id(from_jobs) == by_id(wanted)
    words = ("critical", "high", "normal", "low")
    topics = {job.job_id: f"shardwheel.jobs.short.{words[job.priority]}" for job in jobs}
    for message, fire in zip(out, fires(out), strict=True):
        assert message.key == fire.job_id
        assert message.topic_partition == fire.partition % 2
        assert not fire.schedule_no or message.topic == topics[fire.job_id]


def test_what_a_shadow_passes_over_and_what_it_fires_then_is_everything_once() -> None:
    jobs = some_jobs(300)
    shadow = Shadow(2, NOON_MS - 1)
    shadow.take_jobs(jobs, at(Stand(NOON_MS - 1, 200)))
    for through_ms in range(NOON_MS + 999, NOON_MS + 20_000, 6_000):
        shadow.follow(Stand(through_ms, 200))
    woken_ms = NOON_MS + 20_123
    shadow.wake(Stand(woken_ms, 200))
    got = fires(fired(shadow, woken_ms + 1, NOON_MS + MINUTE_MS))
    through_ms = shadow.wheel.stand_ms
    assert by_id(got) == by_id([fire for job in jobs for fire in expected(job, woken_ms, through_ms)])
