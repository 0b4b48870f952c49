"""A change to one job by somebody, on record: what it was before and what it is after, in its transaction.

What changes nothing (a second pause) is not put on record. The job is locked first: so `before` is true.

Each request is a new one (its id is made here), unless its idempotency key names one that was answered within
24 hours: that answer is given again, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.destinations import STRICT, CallbackRules
from shardwheel.ids import id_of, new_request_id, text_of
from shardwheel.output import shown_time
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.children import delete_child
from shardwheel.store.idempotency import once_of_job
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import delete_job, edit_job, get_job, lock_job, pause_job, read_now_ms, resume_job
from shardwheel.store.requests import MOST_BACKFILLED, backfill_job, trigger_once
from shardwheel.times import refuse


class By(NamedTuple):
    """Who wants it. `allowed` refuses a task type that they may not touch: it is asked of the job's task
    before and after."""

    actor: Actor
    allowed: Callable[[str], None]


MISSED = ("skip", "one", "all")


def edit(
    conn: Connection[Any],
    tenant_id: str,
    job_id: bytes,
    by: By,
    changes: Mapping[str, Any],
    callbacks: CallbackRules = STRICT,
) -> JobRow:
    before = _locked(conn, tenant_id, job_id, by)
    after = edit_job(conn, tenant_id, job_id, changes, callbacks)
    by.allowed(after.task)
    was, now = before.posted(), after.posted()
    changed = [name for name in now.keys() | was.keys() if was.get(name) != now.get(name)]
    if changed:
        _record(conn, after, by.actor, "job.update", _picked(was, changed), _picked(now, changed))
    return after


def pause(conn: Connection[Any], tenant_id: str, job_id: bytes, by: By) -> JobRow:
    before = _locked(conn, tenant_id, job_id, by)
    after = pause_job(conn, tenant_id, job_id)
    _record_state(conn, before, after, by.actor, "job.pause")
    return after


def resume(
    conn: Connection[Any],
    tenant_id: str,
    job_id: bytes,
    by: By,
    missed: str,
    key: str | None = None,
) -> tuple[JobRow, int]:
    """Go on, and how many of the times of the pause run after all: none, the last one, or all of them. The
    same key is the same resume: whoever lost the answer gets that count, not that of a second one."""
    if missed not in MISSED:
        refuse("missed", f"{missed!r:.40} is unknown", f"choose one of {', '.join(MISSED)}")
    _read(conn, tenant_id, job_id, by)

    def make() -> int:
        before = _locked(conn, tenant_id, job_id, by)
        after = resume_job(conn, tenant_id, job_id)
        count = 0
        if before.state == "paused" and missed != "skip":
            count = _fill(conn, before, after, only_last=missed == "one")
        _record_state(conn, before, after, by.actor, "job.resume", missed=missed, backfilled=count)
        return count

    made = once_of_job(conn, tenant_id, key, ("resume", job_id), missed.encode(), make)
    return get_job(conn, tenant_id, job_id), int(made)


def delete(conn: Connection[Any], tenant_id: str, job_id: bytes, by: By) -> JobRow:
    before = _read(conn, tenant_id, job_id, by)
    if before.kind == "task":  # Its root is locked before it.
        delete_child(conn, tenant_id, job_id)
    else:
        before = _locked(conn, tenant_id, job_id, by)
        delete_job(conn, tenant_id, job_id)
    after = get_job(conn, tenant_id, job_id)
    _record_state(conn, before, after, by.actor, "job.delete")
    return after


def trigger(
    conn: Connection[Any],
    tenant_id: str,
    job_id: bytes,
    by: By,
    params: Mapping[str, Any] | None,
    key: str | None = None,
) -> tuple[bytes, int]:
    """The execution's id, and the partition that has it. The same key is the same run."""
    job = _read(conn, tenant_id, job_id, by)

    def make() -> str:
        execution_id, is_new = trigger_once(conn, tenant_id, job_id, new_request_id(), params)
        after = {"execution_id": text_of(execution_id)} | ({} if params is None else {"params": params})
        if is_new:
            _record(conn, job, by.actor, "job.trigger", None, after)
        return text_of(execution_id)

    body = msgspec.json.encode(params, order="deterministic")
    made = once_of_job(conn, tenant_id, key, ("trigger", job_id), body, make)
    return id_of(made), job.partition


def backfill(
    conn: Connection[Any],
    tenant_id: str,
    job_id: bytes,
    by: By,
    span: tuple[int, int],
    key: str | None = None,
) -> tuple[int, int]:
    """How many times the span holds, and the partition that will expand it. The same key is the same one."""
    job = _read(conn, tenant_id, job_id, by)

    def make() -> int:
        count = backfill_job(conn, tenant_id, job_id, new_request_id(), *span)
        after = {"from": shown_time(span[0]), "to": shown_time(span[1]), "count": count}
        _record(conn, job, by.actor, "job.backfill", None, after)
        return count

    made = once_of_job(conn, tenant_id, key, ("backfill", job_id), msgspec.json.encode(span), make)
    return int(made), job.partition


def _locked(conn: Connection[Any], tenant_id: str, job_id: bytes, by: By) -> JobRow:
    job = lock_job(conn, tenant_id, job_id)
    by.allowed(job.task)
    return job


def _read(conn: Connection[Any], tenant_id: str, job_id: bytes, by: By) -> JobRow:
    """For what does not change the job itself."""
    job = get_job(conn, tenant_id, job_id)
    by.allowed(job.task)
    return job


def _fill(conn: Connection[Any], paused: JobRow, resumed: JobRow, *, only_last: bool) -> int:
    """A backfill of the times from the pause to before the resume."""
    first_ms, last_ms = paused.effective_from_ms, resumed.effective_from_ms - 1
    timing = paused.timing
    count = timing.count_between(first_ms - 1, last_ms)
    if not count:
        return 0
    if not only_last and count > MOST_BACKFILLED:
        remedy = f"choose one or skip, and backfill what you need, {MOST_BACKFILLED:,} at once"
        refuse("missed", f"the pause left out {count:,} times", remedy)
    if only_last and count > 1:
        after_ms = max(first_ms, timing.start_ms or 0) - 1
        first_ms = timing.schedule.nth_after(after_ms, count, timing.anchor_ms) or last_ms
    last_ms = min(last_ms, read_now_ms(conn))
    return backfill_job(conn, resumed.tenant_id, resumed.job_id, new_request_id(), first_ms, last_ms)


def _record_state(
    conn: Connection[Any], before: JobRow, after: JobRow, actor: Actor, action: str, **more: Any
) -> None:
    if before.state != after.state:
        _record(conn, after, actor, action, {"state": before.state}, {"state": after.state, **more})


def _record(
    conn: Connection[Any], job: JobRow, actor: Actor, action: str, before: Any, after: Mapping[str, Any]
) -> None:
    details = {"before": before, "after": after}
    write_audit(conn, job.tenant_id, actor, action, "job", text_of(job.job_id), details)


def _picked(body: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: body.get(name) for name in sorted(names)}
