"""The mix as a shard holds it and as the tables hold it: 333,000 jobs in seconds, not in minutes.

Posting a job checks everything about it and costs 75 µs; a benchmark trusts its own jobs. Each distinct
schedule is checked once, and rows go in by COPY with the triggers off: what the triggers would have set
(xids, schedule numbers, times) is set here, to values of the same kind.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import psycopg

from shardwheel.bench.mix import TASK, MixedJob, mix
from shardwheel.job import JobEntry
from shardwheel.partition import PARTITIONS, partition_of
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.store.bulk import copy_in
from shardwheel.times import parse_time
from shardwheel.timing import parse_schedule

TENANT: Final = "default"
TOPIC_PARTITIONS: Final = 8
_COPIED_AT_ONCE: Final = 50_000
_HELD_AT_ONCE: Final = 5_000
_PRIORITY: Final = 2
_GRACE_MS, _WINDOW_MS = 60_000, 3_600_000
# Between 1970 and what PostgreSQL counts its microseconds from.
_TO_2000_US: Final = 946_684_800_000_000

# Times travel as what they are in PostgreSQL: microseconds since 2000.
_COLUMNS: Final = {
    "job_id": "uuid",
    "tenant_id": "text",
    "partition": "int2",
    "task": "text",
    "schedule": "text",
    "anchor_at": "int8",
    "start_at": "int8",
    "last_at": "int8",
    "schedule_no": "int8",
    "schedule_xid": "xid8",
    "changed_xid": "xid8",
    "effective_from": "int8",
    "created_at": "int8",
    "updated_at": "int8",
}


def entries_of(
    count: int, now_ms: int, rate_per_s: float | None = None, *, xid: int = 1, seed: int = 1
) -> Iterator[JobEntry]:
    """So many jobs of the mix, created just now, as the load would hand them to a shard."""
    dice = random.Random(seed)
    for job in mix(count, now_ms, rate_per_s, seed):
        yield _entry(job, now_ms, dice.getrandbits(63) | 1, xid)


def once_entries(dues_ms: Iterable[int], seed: int = 1) -> Iterator[JobEntry]:
    """Jobs that run once, at these times."""
    dice = random.Random(seed)
    once, _ = _timing(None, None, "UTC")
    for due_ms in dues_ms:
        yield _job(dice.randbytes(16), once, due_ms, None, due_ms, dice.getrandbits(63) | 1, 1, due_ms)


def _entry(job: MixedJob, now_ms: int, schedule_no: int, xid: int) -> JobEntry:
    fields = job.fields
    text, kind = _timing(fields.get("cron"), fields.get("every"), fields.get("time_zone", "UTC"))
    if kind == "cron":
        return _job(job.id, text, 0, None, None, schedule_no, xid, now_ms)
    at_ms = parse_time(fields.get("start_at") or fields["run_at"], "run_at")
    if kind == "every":
        return _job(job.id, text, at_ms, at_ms, None, schedule_no, xid, now_ms)
    return _job(job.id, text, at_ms, None, at_ms, schedule_no, xid, now_ms)


def _job(
    job_id: bytes,
    schedule: str,
    anchor_ms: int,
    start_ms: int | None,
    last_ms: int | None,
    schedule_no: int,
    xid: int,
    effective_from_ms: int,
) -> JobEntry:
    return JobEntry(
        job_id=job_id,
        partition=partition_of(job_id),
        active=True,
        version=1,
        schedule=schedule,
        anchor_ms=anchor_ms,
        start_ms=start_ms,
        last_ms=last_ms,
        jitter_ms=0,
        misfire="fire_last",
        misfire_grace_ms=_GRACE_MS,
        catchup_window_ms=_WINDOW_MS,
        pool="short",
        priority=_PRIORITY,
        schedule_no=schedule_no,
        schedule_xid=xid,
        effective_from_ms=effective_from_ms,
    )


@lru_cache(maxsize=100_000)
def _timing(cron: str | None, every: str | None, time_zone: str) -> tuple[str, str]:
    """The canonical text and the kind of a schedule."""
    posted = parse_schedule(now_ms=0, cron=cron, every=every, time_zone=time_zone)
    return posted.schedule.text, posted.schedule.kind


def hold(
    entries: Iterable[JobEntry], now_ms: int, topic_partitions: int = TOPIC_PARTITIONS
) -> dict[int, Holding]:
    """The entries in the holdings of all partitions, standing at now."""
    holding = Holding(topic_partitions, now_ms)
    stands = dict.fromkeys(range(PARTITIONS), Stand(now_ms, 1 << 62))
    remaining = iter(entries)
    while portion := list(islice(remaining, _HELD_AT_ONCE)):
        holding.take_jobs(portion, stands)
    return dict.fromkeys(range(PARTITIONS), holding)


def store(dsn: str, entries: Iterable[JobEntry], *, triggers: bool = False, task: str = TASK) -> int:
    """COPY the entries into `jobs`, as a superuser; returns their number. With the triggers on it is slow,
    and running shards see the jobs."""
    count = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        if not triggers:
            connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        remaining = iter(entries)
        while portion := list(islice(remaining, _COPIED_AT_ONCE)):
            count += copy_in(
                connection, "shardwheel.jobs", _COLUMNS, (_row(entry, task) for entry in portion)
            )
        connection.execute("VACUUM (ANALYZE) shardwheel.jobs")
    return count


def _row(entry: JobEntry, task: str) -> tuple[Any, ...]:
    now_us = _us(entry.effective_from_ms)
    return (
        entry.job_id,
        TENANT,
        entry.partition,
        task,
        entry.schedule,
        _us(entry.anchor_ms) if entry.anchor_ms else None,
        _us(entry.start_ms),
        _us(entry.last_ms),
        entry.schedule_no,
        entry.schedule_xid,
        entry.schedule_xid,
        now_us,
        now_us,
        now_us,
    )


def _us(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * 1000 - _TO_2000_US
