"""Gathers what `explaining` needs, from the tables, on the caller's own transaction; reads only.

An id may be an execution's, with or without a row, or a job's. One without a row is found by trying the jobs
of its partition: an id names its partition and time, and is computable from a job's.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.errors import NotFoundError, UsageError
from shardwheel.explanation import (
    AttemptFacts,
    ExecutionFacts,
    Facts,
    JobFacts,
    LetterFacts,
    ParentFacts,
    PartitionFacts,
    SpanFacts,
    TaskFacts,
)
from shardwheel.ids import fire_id, partition_of_id, scheduled_ms_of, text_of
from shardwheel.job import JobState
from shardwheel.missed import fire_time
from shardwheel.partition import PARTITIONS
from shardwheel.schedule import schedule_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.held import SILENCE
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import get_job, read_now_ms
from shardwheel.store.ownership import read_partitions
from shardwheel.store.sql import sql
from shardwheel.times import DAY_S
from shardwheel.zone import wall_day, zone_of

_Connection = Connection[Any]

# Means the same as no schedule; no job is stored with it.
UNREADABLE = '{"never": true}'


def read_facts(conn: _Connection, tenant_id: str, some_id: bytes) -> Facts:
    """All that the tables know of an execution or a job; who owns the partition only etcd knows."""
    facts = _of_row(conn, tenant_id, some_id)
    return facts or _of_job(conn, tenant_id, some_id) or _without_row(conn, tenant_id, some_id)


def _of_row(conn: _Connection, tenant_id: str, execution_id: bytes) -> Facts | None:
    given = {"execution_id": Uuid(execution_id), "tenant_id": tenant_id}
    row = conn.execute(sql("explain_execution"), given).fetchone()
    if row is None:
        return None
    job_id, scheduled_ms, *columns = row
    facts = _around(conn, get_job(conn, tenant_id, bytes(job_id)), scheduled_ms)
    letter = conn.execute(sql("explain_letter"), given).fetchone()
    slot = conn.execute(sql("explain_slot"), {"job_id": Uuid(job_id), "tenant_id": tenant_id}).fetchone()
    return facts._replace(
        execution_id=execution_id,
        execution=ExecutionFacts._make(columns),
        attempts=[AttemptFacts._make(one) for one in conn.execute(sql("explain_attempts"), given)],
        letter=None if letter is None else LetterFacts._make(letter),
        slot_holder=None if slot is None else slot[0],
    )


def _of_job(conn: _Connection, tenant_id: str, job_id: bytes) -> Facts | None:
    """The job, its latest execution, and its last past time if that has no row."""
    try:
        job = get_job(conn, tenant_id, job_id)
    except NotFoundError:
        return None
    facts = _around(conn, job, None)
    of_job = {"job_id": Uuid(job_id), "tenant_id": tenant_id}
    facts = facts._replace(
        parents=[ParentFacts._make(one) for one in conn.execute(sql("explain_parents"), of_job)]
    )
    row = conn.execute(sql("latest_execution"), of_job).fetchone()
    facts = facts._replace(latest=None if row is None else _of_row(conn, tenant_id, row[0]))
    previous_ms = facts.job.previous_ms
    if previous_ms is None or _exists(conn, fire_id(job_id, job.partition, previous_ms)):
        return facts
    missing = _around(conn, job, previous_ms)
    return missing._replace(latest=facts.latest) if missing.span is None else facts


def _without_row(conn: _Connection, tenant_id: str, execution_id: bytes) -> Facts:
    partition, scheduled_ms = partition_of_id(execution_id), scheduled_ms_of(execution_id)
    given = {"partition": partition, "tenant_id": tenant_id}
    rows = conn.execute(sql("jobs_of_partition"), given) if partition < PARTITIONS else ()
    for (job_id,) in rows:
        if fire_id(job_id, partition, scheduled_ms) == execution_id:
            facts = _around(conn, get_job(conn, tenant_id, job_id), scheduled_ms)
            return facts._replace(execution_id=execution_id)
    raise NotFoundError(f"there is no execution and no job {text_of(execution_id)}", field="id")


def _around(conn: _Connection, job: JobRow, scheduled_ms: int | None) -> Facts:
    """The job, its task type and its partition, and what is on record of this time."""
    now_ms, job = read_now_ms(conn), _readable(job)
    of_job = {"job_id": Uuid(job.job_id), "tenant_id": job.tenant_id}
    ((changed_ms,),) = conn.execute(sql("job_changed"), of_job)
    of_task = {"tenant_id": job.tenant_id, "task": job.task, "pool": job.pool, "silence": SILENCE}
    (task,) = conn.execute(sql("explain_task"), of_task)
    (state,) = read_partitions(conn, [job.partition])
    facts = Facts(
        now_ms,
        _job_facts(job, changed_ms, now_ms, scheduled_ms),
        PartitionFacts(state.fired_through_ms, state.floor_ms),
        TaskFacts._make(task),
    )
    if scheduled_ms is None:
        return facts
    span = conn.execute(sql("explain_span"), {**of_job, "scheduled_ms": scheduled_ms}).fetchone()
    return facts._replace(
        scheduled_ms=scheduled_ms,
        fire_ms=_fire_ms(job, scheduled_ms),
        span=None if span is None else SpanFacts._make(span),
    )


def _job_facts(job: JobRow, changed_ms: int, now_ms: int, scheduled_ms: int | None) -> JobFacts:
    timing = job.timing
    next_ms = (
        timing.next_after(max(now_ms, job.effective_from_ms - 1)) if job.state == JobState.ACTIVE else None
    )
    is_time = scheduled_ms is None or timing.next_after(scheduled_ms - 1) == scheduled_ms
    return JobFacts(
        job.job_id,
        job.partition,
        job.task,
        job.state,
        "unreadable" if job.schedule == UNREADABLE else timing.schedule.kind,
        job.pool,
        job.overlap,
        job.max_runs,
        job.max_retries,
        job.timeout_ms,
        job.not_after_ms,
        job.misfire,
        job.misfire_grace_ms,
        job.catchup_window_ms,
        job.end_ms,
        job.last_ms,
        job.effective_from_ms,
        changed_ms,
        next_ms,
        None if next_ms is None else _fire_ms(job, next_ms),
        _previous_ms(job, now_ms),
        is_time,
        [] if next_ms is None else _excluded(job, now_ms, next_ms),
    )


def _readable(job: JobRow) -> JobRow:
    """A schedule that can't be read here, with other time zones than where it was written, has no times."""
    try:
        schedule_of(job.schedule)
    except UsageError:
        return job._replace(schedule=UNREADABLE)
    return job


def _previous_ms(job: JobRow, now_ms: int) -> int | None:
    """The last time of the present schedule that is past, fire time and all."""
    if job.state != JobState.ACTIVE:
        return None
    timing, first_ms = job.timing, max(job.effective_from_ms, job.start_ms or 0) - 1
    count = timing.count_between(first_ms, now_ms)
    # Jitter never reaches the next time: the one before the last has been fired in any case.
    for nth in range(count, max(count - 2, 0), -1):
        found_ms = timing.schedule.nth_after(first_ms, nth, timing.anchor_ms)
        if found_ms is not None and _fire_ms(job, found_ms) <= now_ms:
            return found_ms
    return None


def _fire_ms(job: JobRow, scheduled_ms: int) -> int:
    timing = job.timing
    return fire_time(timing.schedule, job.job_id, scheduled_ms, timing.anchor_ms, job.jitter_ms)


def _excluded(job: JobRow, now_ms: int, next_ms: int) -> list[str]:
    """The dates that the schedule passes over until its next time."""
    definition = job.timing.schedule.definition
    zone = zone_of(definition.time_zone)
    first, last = ((at_s + zone.shift_at(at_s)) // DAY_S for at_s in (now_ms // 1000, next_ms // 1000))
    return [str(date) for date in definition.exclude if first <= wall_day(date) <= last]


def _exists(conn: _Connection, execution_id: bytes) -> bool:
    return conn.execute(sql("execution_exists"), {"execution_id": Uuid(execution_id)}).fetchone() is not None
