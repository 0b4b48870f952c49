"""DAGs over HTTP: store, list, read, edit, delete, pause, resume, trigger. Their runs are in `dag_runs`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from shardwheel.api import bodies, dag_bodies, dag_examples, dag_views, examples
from shardwheel.api.job_commands import checked_key
from shardwheel.api.jobs import CREATED_WORDS, PAGE_WORDS, SMALL_BYTES, admit_resume
from shardwheel.api.limits import BATCH_LIMIT_BYTES, decoded
from shardwheel.api.route import Ask, Reply, Route, Word, paged
from shardwheel.dag import DagPosting, parse_dag
from shardwheel.ids import text_of
from shardwheel.job import JobState
from shardwheel.partition import partition_of
from shardwheel.store import dag_alterations
from shardwheel.store.dag_reading import DagFilter, list_dags, read_dag
from shardwheel.store.link import Connection
from shardwheel.times import refuse


class Posted(NamedTuple):
    posting: DagPosting
    key: str | None


async def create(ask: Ask) -> Reply:
    in_thread = len(ask.body) > SMALL_BYTES
    posted = await asyncio.to_thread(_posted, ask.body) if in_thread else _posted(ask.body)
    for task in posted.posting.tasks:
        ask.allowed(task.job.task)
    await ask.desk.quotas.admit_dag(ask.tenant, *posted)
    return await _done(ask, dag_alterations.create, *posted, status=201)


async def list_(ask: Ask) -> Reply:
    query = ask.query
    wanted = DagFilter(
        state=query.text("state"),
        task=query.text("task"),
        tag=query.text("tag"),
        text=query.text("q"),
        from_ms=query.time_ms("from"),
        until_ms=query.time_ms("to"),
    )
    return await paged(ask, list_dags, wanted)


async def get(ask: Ask) -> Reply:
    return Reply(await ask.desk.much(ask.tenant, read_dag, ask.id))


async def edit(ask: Ask) -> Reply:
    changes = decoded(ask.body)
    if not isinstance(changes, dict) or not changes:
        refuse("body", "is not a JSON object with fields to change", "send what is to change")
    check = await ask.desk.quotas.admit_dag_edit(ask.tenant)
    return await _changed(ask, dag_alterations.edit, changes, check)


async def delete(ask: Ask) -> Reply:
    return await _changed(ask, dag_alterations.delete)


async def pause(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    return await _changed(ask, dag_alterations.pause)


async def resume(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    await admit_resume(ask)
    return await _changed(ask, dag_alterations.resume)


async def trigger(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, dag_bodies.TriggerDagBody)
    await ask.desk.quotas.admit_wish(ask.tenant)
    await ask.desk.quotas.admit_params(ask.tenant, wish.params)
    given = wish.params, checked_key(wish.idempotency_key)
    run_id, partition = await ask.desk.pool.run(ask.tenant, dag_alterations.trigger, ask.id, ask.by, *given)
    ask.desk.poke([partition])
    return Reply({"id": text_of(run_id), "run_id": text_of(run_id), "dag_id": text_of(ask.id)}, 202)


async def _changed(ask: Ask, change: Callable[..., object], *given: Any) -> Reply:
    def work(conn: Connection, tenant_id: str, *args: Any) -> bytes:
        change(conn, tenant_id, ask.id, *args)
        return ask.id

    return await _done(ask, work, *given)


async def _done(ask: Ask, work: Callable[..., bytes], *given: Any, status: int = 200) -> Reply:
    """Do it, and answer with the DAG as it stands then; its owner hears of it."""

    def both(conn: Connection, tenant_id: str) -> tuple[bytes, dict[str, Any]]:
        dag_id = work(conn, tenant_id, ask.by, *given)
        return dag_id, read_dag(conn, tenant_id, dag_id)

    dag_id, shown = await ask.desk.much(ask.tenant, both)
    ask.desk.remembered.forget(ask.tenant, dag_id)
    ask.desk.poke([partition_of(dag_id)])
    return Reply(shown, status)


def _posted(body: bytes) -> Posted:
    value = decoded(body)
    if not isinstance(value, dict):
        refuse("body", "is not a JSON object", 'send a DAG such as {"name": "etl", "tasks": […]}')
    key = checked_key(value.pop("idempotency_key", None))
    return Posted(parse_dag(value), key)


FILTERS = (
    Word("state", "As it stands.", "active", tuple(JobState)),
    Word("task", "With a task of this type.", "etl.load"),
    Word("tag", "With this tag.", "billing"),
    Word("q", "A part of the name, in any case.", "etl"),
    *CREATED_WORDS,
)
ROUTES = (
    Route(
        "POST",
        "/dags",
        create,
        "Store a DAG with all its tasks",
        "Whole or not at all, up to 16 MiB. A cycle is refused with its keys. With an `idempotency_key` that "
        "was used in the last 24 hours it answers with the DAG that the key made; for another body, 409.",
        dag_views.DagWithTasks,
        dag_examples.DAG_WITH_TASKS,
        status=201,
        body=dag_bodies.DagBody,
        body_example=dag_examples.DAG_POSTED,
        body_limit=BATCH_LIMIT_BYTES,
    ),
    Route(
        "GET",
        "/dags",
        list_,
        "List DAGs, oldest first",
        "Without their tasks. Deleted ones are listed only by `state=deleted`.",
        dag_views.DagPage,
        examples.page(dag_examples.DAG),
        query=(*PAGE_WORDS, *FILTERS),
    ),
    Route(
        "GET",
        "/dags/{id}",
        get,
        "Read a DAG with its tasks",
        "In its latest version.",
        dag_views.DagWithTasks,
        dag_examples.DAG_WITH_TASKS,
    ),
    Route(
        "PATCH",
        "/dags/{id}",
        edit,
        "Edit a DAG, as a new version",
        "The fields that are sent replace the old ones, null takes one away, and `tasks` are all of them. "
        "Runs go on with the version that they began with. What changes nothing makes no version.",
        dag_views.DagWithTasks,
        dag_examples.DAG_WITH_TASKS | {"version": 2},
        body=dag_bodies.DagEdit,
        body_example={"cron": "0 3 * * *", "sla_s": None},
        body_limit=BATCH_LIMIT_BYTES,
    ),
    Route(
        "DELETE",
        "/dags/{id}",
        delete,
        "Delete a DAG and its tasks",
        "Once it is answered nothing of the DAG starts any more. Said twice, the same.",
        dag_views.DagWithTasks,
        dag_examples.DAG_WITH_TASKS | {"state": "deleted", "next_at": None},
    ),
    Route(
        "POST",
        "/dags/{id}:pause",
        pause,
        "Pause a DAG",
        "Once it is answered no run begins but what is triggered, and no task of those under way. Said "
        "twice, the same.",
        dag_views.DagWithTasks,
        dag_examples.DAG_WITH_TASKS | {"state": "paused", "next_at": None},
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/dags/{id}:resume",
        resume,
        "Let a paused DAG go on",
        "From now on, with the tasks that were held.",
        dag_views.DagWithTasks,
        dag_examples.DAG_WITH_TASKS,
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/dags/{id}:trigger",
        trigger,
        "Run a DAG now",
        "Paused or not; answers with the run's id. `params` go over those of each task, field by field, in "
        "this run. With an `idempotency_key`, the same key again answers with the same run; with other "
        "params the key is refused with 409.",
        dag_views.DagTriggered,
        dag_examples.TRIGGERED,
        status=202,
        body=dag_bodies.TriggerDagBody,
        body_example={"params": {"month": "2026-10"}, "idempotency_key": "month-end"},
    ),
)
