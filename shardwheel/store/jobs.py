"""What people say: create, edit, pause, resume, delete. Functions on the caller's own transaction.

Every change of a schedule first locks the job's row (claims wait, or were before), then writes it (the
trigger names the new state and reads the clock under the lock), then settles the old schedule up to the
new `effective_from`. Pause, resume and delete are idempotent: said twice, the second changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg import Connection

from shardwheel.destinations import STRICT, CallbackRules
from shardwheel.errors import ConflictError, NotFoundError
from shardwheel.ids import fire_id, new_job_id, text_of
from shardwheel.job import JobState
from shardwheel.partition import partition_of
from shardwheel.posting import SCHEDULE_FIELDS, TIMING_FIELDS, JobPosting, parse_posting, refuse_schedule
from shardwheel.store.arrays import Bigints, Texts, Uuid, Uuids
from shardwheel.store.forms import Forms, timing_columns
from shardwheel.store.held import release_paused, release_task, skip_held
from shardwheel.store.job_row import JobRow
from shardwheel.store.settlement import settle_old_schedule
from shardwheel.store.sql import is_few, sql
from shardwheel.times import refuse
from shardwheel.timing import PostedTiming

_Connection = Connection[Any]
_TIMING_COLUMNS = ("schedule", "anchor_ms", "start_ms", "end_ms", "last_ms", "max_runs", "jitter_ms")


def create_jobs(conn: _Connection, tenant_id: str, postings: Sequence[JobPosting]) -> list[bytes]:
    """Store new jobs without parents, all or none; their ids, in the order of the postings. (Those with
    parents are `children.store_jobs`'s.)"""
    return [row.job_id for row in insert_jobs(conn, tenant_id, postings, read_now_ms(conn))]


def insert_jobs(
    conn: _Connection,
    tenant_id: str,
    postings: Sequence[JobPosting],
    now_ms: int,
    ids: Sequence[bytes] | None = None,
) -> list[JobRow]:
    """The same at a time of the database's clock, a moment ago; the jobs as they stand then. `ids`: theirs,
    made for them already."""
    if not postings:
        return []
    if any(posting.parents for posting in postings):
        refuse("parents", "can't be given here", "post the job to the API, or use: shardctl job create")
    forms = Forms(now_ms)
    formed = [forms.of(posting) for posting in postings]
    ids = ids or [new_job_id(now_ms) for _ in postings]
    partitions = [partition_of(job_id) for job_id in ids]
    parameters = {
        "tenant_id": tenant_id,
        "forms": forms.sent,
        "job_ids": Uuids(ids),
        "partitions": Bigints(partitions),
        "numbers": Bigints([form.number for form in formed]),
        "anchors": Bigints([form.timing.anchor_ms for form in formed]),
        "names": Texts([posting.name for posting in postings]),
        "params": Texts([msgspec.json.encode(posting.params).decode() for posting in postings]),
    }
    made = conn.execute(sql("create_jobs"), parameters, binary=True, prepare=is_few(len(ids))).fetchall()
    given = {job_id: state for job_id, *state in made}
    rows = [
        form.row(posting, tenant_id, job_id, partition, given[job_id])
        for form, posting, job_id, partition in zip(formed, postings, ids, partitions, strict=True)
    ]
    return [_limited(conn, form.timing, row) for form, row in zip(formed, rows, strict=True)]


def _limited(conn: _Connection, timing: PostedTiming, row: JobRow) -> JobRow:
    if timing.max_runs is None:
        return row
    limit_runs(conn, row.job_id, timing, row.effective_from_ms)
    return get_job(conn, row.tenant_id, row.job_id)


def get_job(conn: _Connection, tenant_id: str, job_id: bytes) -> JobRow:
    return _one(conn, "read_job", tenant_id, job_id)


def lock_job(conn: _Connection, tenant_id: str, job_id: bytes) -> JobRow:
    """The job, held against every other change and against claims until this transaction ends."""
    return _one(conn, "lock_job", tenant_id, job_id)


def list_jobs(
    conn: _Connection,
    tenant_id: str,
    *,
    after: bytes = bytes(16),
    limit: int = 100,
    state: str | None = None,
    task: str | None = None,
    tag: str | None = None,
    text: str | None = None,
    from_ms: int | None = None,
    until_ms: int | None = None,
    parent: bytes | None = None,
) -> list[JobRow]:
    """A page of jobs after this id. Deleted ones only when asked for by state. `text`: part of the name or
    of the task, in whatever case. The times are those of their creation, the first included, the end not.
    `parent`: those that run after it."""
    parameters = {
        "tenant_id": tenant_id,
        "after": Uuid(after),
        "limit": limit,
        "state": state,
        "task": task,
        "tag": tag,
        "text": text,
        "parent": None if parent is None else Uuid(parent),
        "from_ms": from_ms,
        "until_ms": until_ms,
    }
    return [JobRow._make(row) for row in conn.execute(sql("list_jobs"), parameters)]


def edit_job(
    conn: _Connection,
    tenant_id: str,
    job_id: bytes,
    changes: Mapping[str, Any],
    callbacks: CallbackRules = STRICT,
) -> JobRow:
    """Apply posted fields to a job. Only a change of its timing gives the schedule a new state."""
    old = _existing(conn, tenant_id, job_id)
    now_ms = read_now_ms(conn)
    if old.kind == "dag":
        raise ConflictError(f"job {text_of(job_id)} is a DAG: edit it as one", field="id")
    _check_changes(conn, old, changes)
    posting = parse_posting(old.posted_with(changes), callbacks)
    timing = posting.timing(now_ms) if TIMING_FIELDS & set(changes) else None
    write_edit(conn, old, posting.columns(), timing, now_ms)
    return get_job(conn, tenant_id, job_id)


def _check_changes(conn: _Connection, old: JobRow, changes: Mapping[str, Any]) -> None:
    """A job with parents can be edited, but gets no schedule; a DAG's task is its DAG's to edit."""
    if "parents" in changes:
        refuse("parents", "belongs to a job's creation", "add or take away one: shardctl job depend")
    if old.kind != "task" or old.dag_id is None:
        return
    if get_job(conn, old.tenant_id, old.dag_id).kind == "dag":
        refuse_a_task(old)
    refuse_schedule(SCHEDULE_FIELDS & set(changes))


def write_edit(
    conn: _Connection, old: JobRow, columns: dict[str, Any], timing: PostedTiming | None, now_ms: int
) -> None:
    """Write a locked job as edited; without a timing it keeps the one it has. A new state of the schedule
    settles the old one."""
    columns = columns | {name: getattr(old, name) for name in _TIMING_COLUMNS}
    if timing is not None:
        _refuse_a_spent_once(conn, old, timing, now_ms)
        columns |= timing_columns(timing)
    parameters = {"job_id": Uuid(old.job_id), "job": msgspec.json.encode(columns).decode()}
    ((effective_from_ms, schedule_no),) = conn.execute(sql("edit_job"), parameters)
    if columns["task"] != old.task:
        release_task(conn, old.job_id, old.task)
    if schedule_no != old.schedule_no:
        if old.state == JobState.ACTIVE:
            settle_old_schedule(conn, old, effective_from_ms, now_ms=now_ms, skip_as=None)
        if timing is not None:
            runs_before = _runs_before(old, effective_from_ms)
            limit_runs(conn, old.job_id, timing, effective_from_ms, runs_before=runs_before)


def pause_job(conn: _Connection, tenant_id: str, job_id: bytes) -> JobRow:
    """From the acknowledgement on, nothing of it is claimed but what is explicitly asked for."""
    old = locked_job(conn, tenant_id, job_id)
    if old.state == JobState.ACTIVE:
        _end_schedule(conn, old, JobState.PAUSED)
    elif old.state != JobState.PAUSED:
        raise ConflictError(f"job {text_of(job_id)} is {old.state}: only an active job can be paused")
    return get_job(conn, tenant_id, job_id)


def resume_job(conn: _Connection, tenant_id: str, job_id: bytes) -> JobRow:
    """Go on from now. It settles nothing: the pause did; what was missed is a backfill's to fill."""
    old = locked_job(conn, tenant_id, job_id)
    if old.state == JobState.PAUSED:
        conn.execute(sql("change_state"), {"job_id": Uuid(job_id), "state": JobState.ACTIVE})
        release_paused(conn, tenant_id, job_id)
    elif old.state != JobState.ACTIVE:
        raise ConflictError(f"job {text_of(job_id)} is {old.state}: only a paused job can be resumed")
    return get_job(conn, tenant_id, job_id)


def delete_job(conn: _Connection, tenant_id: str, job_id: bytes) -> None:
    """A tombstone stays until retention. Deleting twice is the same as once."""
    old = lock_job(conn, tenant_id, job_id)
    refuse_a_task(old)
    if old.state == JobState.ACTIVE:
        _end_schedule(conn, old, JobState.DELETED)
    elif old.state != JobState.DELETED:
        conn.execute(sql("change_state"), {"job_id": Uuid(job_id), "state": JobState.DELETED})
    if old.kind == "dag" or old.has_children:
        conn.execute(sql("delete_tasks"), {"tenant_id": tenant_id, "dag_id": Uuid(job_id)})
        release_paused(conn, tenant_id, job_id)  # Its tasks: the claim finds that they can't run any more.
    skip_held(conn, job_id)


def read_now_ms(conn: _Connection) -> int:
    ((now_ms,),) = conn.execute("SELECT shardwheel.now_ms()")
    return int(now_ms)


def _end_schedule(conn: _Connection, old: JobRow, state: JobState) -> None:
    ((effective_from_ms,),) = conn.execute(sql("change_state"), {"job_id": Uuid(old.job_id), "state": state})
    settle_old_schedule(conn, old, effective_from_ms, now_ms=effective_from_ms, skip_as=state.value)


def locked_job(conn: _Connection, tenant_id: str, job_id: bytes) -> JobRow:
    """The same, of one that is neither deleted nor a task."""
    old = _existing(conn, tenant_id, job_id)
    refuse_a_task(old)
    return old


def _existing(conn: _Connection, tenant_id: str, job_id: bytes) -> JobRow:
    old = lock_job(conn, tenant_id, job_id)
    if old.state == JobState.DELETED:
        raise NotFoundError(f"job {text_of(job_id)} is deleted", field="id")
    return old


def refuse_a_task(job: JobRow) -> None:
    """A task has no schedule and no life of its own: what people say, they say of its DAG, or of the job at
    its root."""
    if job.kind == "task":
        problem = "is a task, without a schedule of its own: it runs when its parents are over"
        remedy = f"edit, pause or trigger {text_of(job.dag_id or job.job_id)}"
        raise ConflictError(f"job {text_of(job.job_id)} {problem}; {remedy}", field="id")


def _one(conn: _Connection, statement: str, tenant_id: str, job_id: bytes) -> JobRow:
    row = conn.execute(sql(statement), {"tenant_id": tenant_id, "job_id": Uuid(job_id)}).fetchone()
    if row is None:
        raise NotFoundError(f"there is no job {text_of(job_id)}", field="id")
    return JobRow._make(row)


def limit_runs(
    conn: _Connection, job_id: bytes, timing: PostedTiming, effective_from_ms: int, *, runs_before: int = 0
) -> None:
    """`max_runs` counts from the moment the schedule takes effect: now that it is known, its last time is."""
    if timing.max_runs is None:
        return
    last_ms = timing.timing_from(effective_from_ms, runs_before).last_ms
    conn.execute(sql("limit_runs"), {"job_id": Uuid(job_id), "last_ms": last_ms})


def _runs_before(old: JobRow, effective_from_ms: int) -> int:
    """How many of max_runs the old schedule used up in [its own, the new effective_from)."""
    return old.timing.count_between(old.effective_from_ms - 1, effective_from_ms - 1)


def _refuse_a_spent_once(conn: _Connection, old: JobRow, timing: PostedTiming, now_ms: int) -> None:
    """A once that moves must move to a time that can still run: neither past nor run already."""
    if timing.schedule.kind != "once" or (timing.schedule.text, timing.anchor_ms) == (
        old.schedule,
        old.anchor_ms,
    ):
        return
    if timing.anchor_ms <= now_ms:
        refuse("run_at", "lies in the past", "choose a later time, or trigger the job to run it now")
    execution_id = fire_id(old.job_id, old.partition, timing.anchor_ms)
    if conn.execute(sql("execution_exists"), {"execution_id": Uuid(execution_id)}).fetchone():
        raise ConflictError(
            "run_at: the job has an execution at that time already; choose another", field="run_at"
        )
