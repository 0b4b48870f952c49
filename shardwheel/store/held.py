"""Held executions: whatever held them is looked at again, and what it no longer holds goes on.

Nothing waits inside Kafka for a limit: what may not run yet is a row with its reason, and costs nothing
while it waits. The owner's sweep releases it; the claim decides again, so releasing too much is only
wasteful. A hundred thousand rows that one task type holds are one hold here: the sweep steps from hold to
hold by an index, asks each how many would find room, and takes the oldest.

There may be many holds, above all of jobs (paused, overlap): a sweep looks at a page of them and the next
one goes on from there. Resuming a job or freeing its slot only hastens it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from shardwheel.execution import FIRST_PAGES, HoldPages
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.sql import sql
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind

HELD_BY_TASK = ("task_paused", "concurrency", "rate_limit", "breaker_open", "handler_unknown")
# A message as if it had come from Kafka, and its job's priority.
HeldFire = tuple[Fire, int]
# A worker says every 10 s that it is there.
SILENCE = timedelta(seconds=30)
# At a sweep each two seconds: five hundred a second and shard of each hold.
MOST = 1_000
PAGE = 200
TASK_PAGE = 1_000
DELETED_AT_ONCE = 5


def sweep_held(
    conn: Connection[Any],
    partitions: Sequence[int],
    pages: HoldPages,
    *,
    most: int = MOST,
    task_page: int = TASK_PAGE,
) -> HoldPages:
    """Release what is held for no reason any more, and end what deleted jobs hold; where the next sweep goes
    on."""
    _sweep_deleted(conn, partitions, most)
    parameters = {"partitions": list(partitions), "most": most}
    after = [pages.by_task.get(reason, ("", "")) for reason in HELD_BY_TASK]
    by_task = {
        "reasons": list(HELD_BY_TASK),
        "after_tenants": [tenant_id for tenant_id, _ in after],
        "after_tasks": [task for _, task in after],
        "page": task_page,
        "silence": SILENCE,
    }
    full = conn.execute(sql("sweep_held"), parameters | by_task, prepare=False).fetchall()
    return HoldPages(
        _next_page(conn, "sweep_paused", pages.paused, parameters),
        _next_page(conn, "sweep_overlap", pages.overlap, parameters),
        {reason: (tenant_id, task) for reason, tenant_id, task in full},
    )


def held_for_workers(conn: Connection[Any], pool: str, tasks: Collection[str], most: int) -> list[HeldFire]:
    """What workers of this pool had no handler for, and whoever has these handlers may claim."""
    given = {"pool": pool, "tasks": sorted(tasks), "most": most, "page": TASK_PAGE}
    rows = conn.execute(sql("held_for_workers"), given, binary=True, prepare=False)
    return [_held_fire(*row) for row in rows]


def _held_fire(
    execution_id: bytes,
    job_id: bytes,
    partition: int,
    scheduled_ms: int,
    due_ms: int,
    attempt: int,
    priority: int,
) -> HeldFire:
    head = (FORMAT_VERSION, FireKind.FIRE, execution_id, job_id, partition)
    return Fire(*head, 0, scheduled_ms, due_ms, attempt), priority


def sweep_slots(conn: Connection[Any], partitions: Sequence[int]) -> int:
    """Free slots that nobody uses; how many there were (there should be none)."""
    ((freed,),) = conn.execute(sql("sweep_slots"), {"partitions": list(partitions)})
    return int(freed)


def release_paused(conn: Connection[Any], tenant_id: str, job_id: bytes) -> int:
    """Its job was resumed: let go on what was held for that, the first of it now."""
    values = {"tenant_id": tenant_id, "job_id": Uuid(job_id), "most": MOST}
    return conn.execute(sql("release_paused"), values).rowcount


def release_task(conn: Connection[Any], job_id: bytes, task: str) -> int:
    """Its job has another task now: nothing of it waits for the old one any more."""
    return conn.execute(sql("release_task"), {"job_id": Uuid(job_id), "task": task, "most": MOST}).rowcount


def skip_held(conn: Connection[Any], job_id: bytes, *, most: int = MOST) -> None:
    """Its job was deleted: nothing of it is held any more; nor is a task of it, if it was a DAG or had
    children. Of very much the sweep ends the rest."""
    if _skip_held(conn, job_id, most) == most:
        conn.execute(sql("note_deleted"), {"job_id": Uuid(job_id)})


def _skip_held(conn: Connection[Any], job_id: bytes, most: int) -> int:
    given = {"job_id": Uuid(job_id), "most": most}
    return max(conn.execute(sql(name), given).rowcount for name in ("skip_held", "doom_held"))


def _sweep_deleted(conn: Connection[Any], partitions: Sequence[int], most: int) -> None:
    given = {"partitions": list(partitions), "jobs": DELETED_AT_ONCE}
    job_ids = [row[0] for row in conn.execute(sql("sweep_deleted"), given, binary=True)]
    for job_id in job_ids:
        _skip_held(conn, job_id, most)
    if job_ids:
        conn.execute(sql("forget_deleted"), {"job_ids": Uuids(job_ids)})


def _next_page(
    conn: Connection[Any], statement: str, after: tuple[str, str], parameters: dict[str, Any]
) -> tuple[str, str]:
    tenant_id, job_id = after
    values = parameters | {"after_tenant": tenant_id, "after_job": job_id, "page": PAGE}
    last: tuple[str, str] | None = conn.execute(sql(statement), values).fetchone()
    return FIRST_PAGES.paused if last is None else last
