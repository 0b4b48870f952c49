"""Edges between jobs over HTTP: a job runs after another, or no longer does."""

from __future__ import annotations

from shardwheel.api import examples, views
from shardwheel.api.jobs import changed
from shardwheel.api.route import Ask, Reply, Route
from shardwheel.ids import id_of
from shardwheel.store.dependencies import set_dependency

CHILD = examples.JOB | {
    "kind": "task",
    "next_at": None,
    "parents": [examples.PARENT_ID],
    "dag_id": examples.PARENT_ID,
    **dict.fromkeys(("cron", "time_zone", "dst_gap", "dst_fold", "exclude")),
}


async def add(ask: Ask) -> Reply:
    return await _set(ask, is_edge=True)


async def remove(ask: Ask) -> Reply:
    return await _set(ask, is_edge=False)


async def _set(ask: Ask, *, is_edge: bool) -> Reply:
    parent_id = id_of(ask.path["parent_id"], field="parent_id")
    job = await ask.desk.pool.run(ask.tenant, set_dependency, ask.id, ask.by, parent_id, is_edge)
    return await changed(ask, job.partition)


ROUTES = (
    Route(
        "PUT",
        "/jobs/{id}/dependencies/{parent_id}",
        add,
        "Let a job run after another one too",
        "Both are tasks of one DAG, or children of one job (or that job itself, as the parent). Runs under "
        "way keep the edges that they began with. A cycle is refused with 400 and spelled out. Said twice, "
        "the same.",
        views.JobView,
        CHILD,
    ),
    Route(
        "DELETE",
        "/jobs/{id}/dependencies/{parent_id}",
        remove,
        "Let a job no longer run after another one",
        "Runs under way keep the edges that they began with. The only parent of a job is refused with 409: "
        "it would never run. Said twice, the same.",
        views.JobView,
        CHILD,
    ),
)
