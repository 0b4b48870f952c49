"""Runs of DAGs over HTTP: list, read, and what people do to them: run failed tasks again, cancel, complete or
skip a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardwheel.api import bodies, dag_bodies, dag_examples, dag_views, examples
from shardwheel.api.executions import SPAN_WORDS
from shardwheel.api.jobs import PAGE_WORDS
from shardwheel.api.route import Ask, Reply, Route, Word, paged
from shardwheel.execution import Resolved
from shardwheel.ids import id_of
from shardwheel.metrics import tell_run_ends
from shardwheel.partition import partition_of
from shardwheel.store import dag_alterations
from shardwheel.store.dag_alterations import OfRun
from shardwheel.store.dag_reading import RUN_STATES, RunFilter, list_runs, read_run
from shardwheel.store.link import Connection


async def list_(ask: Ask) -> Reply:
    query = ask.query
    wanted = RunFilter(ask.id, query.text("state"), query.time_ms("from"), query.time_ms("to"))
    return await paged(ask, list_runs, wanted)


async def get(ask: Ask) -> Reply:
    of = _of(ask)
    return Reply(await ask.desk.much(ask.tenant, read_run, of.run_id, of.dag_id))


async def find(ask: Ask) -> Reply:
    return Reply(await ask.desk.much(ask.tenant, read_run, ask.id))


async def rerun(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, dag_bodies.RerunBody)
    await ask.desk.quotas.admit_wish(ask.tenant)
    return await _changed(ask, dag_alterations.rerun, wish.tasks)


async def cancel(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    return await _changed(ask, dag_alterations.cancel)


async def force_complete(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, dag_bodies.CompleteBody)
    return await _changed(ask, dag_alterations.force_complete, ask.path["task"], wish.output)


async def skip(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, dag_bodies.SkipBody)
    return await _changed(ask, dag_alterations.skip, ask.path["task"], wish.children)


async def _changed(ask: Ask, change: Callable[..., Resolved], *given: Any) -> Reply:
    """Do it, and answer with the run as it stands then; the DAG's owner hears that something may wait."""
    of = _of(ask)

    def both(conn: Connection, tenant_id: str) -> tuple[Resolved, dict[str, Any]]:
        return change(conn, tenant_id, of, ask.by, *given), read_run(conn, tenant_id, of.run_id)

    resolved, shown = await ask.desk.much(ask.tenant, both)
    tell_run_ends(resolved.ends)
    ask.desk.poke([partition_of(of.dag_id)])
    return Reply(shown)


def _of(ask: Ask) -> OfRun:
    return OfRun(ask.id, id_of(ask.path["run"], field="run"))


ROUTES = (
    Route(
        "GET",
        "/dags/{id}/runs",
        list_,
        "The runs of a DAG, latest first",
        "By scheduled time. A run that was triggered is listed once it has begun.",
        dag_views.RunPage,
        examples.page(dag_examples.RUN),
        query=(
            *PAGE_WORDS,
            Word("state", "How it stands, or ended.", "failed", RUN_STATES),
            *SPAN_WORDS,
        ),
    ),
    Route(
        "GET",
        "/dags/{id}/runs/{run}",
        get,
        "Read a run with what became of each task",
        "In the order in which they were posted. Also of one that has not begun yet. Of outputs of more than "
        "1 MiB together the last ones, by key, are left out: `GET /executions/{id}` has each.",
        dag_views.RunWithTasks,
        dag_examples.RUN_WITH_TASKS,
    ),
    Route(
        "GET",
        "/dag-runs/{id}",
        find,
        "Read a run by its own id",
        "As `GET /dags/{id}/runs/{run}`, for whoever does not know the DAG: `dag_id` names it.",
        dag_views.RunWithTasks,
        dag_examples.RUN_WITH_TASKS,
    ),
    Route(
        "POST",
        "/dags/{id}/runs/{run}:rerun",
        rerun,
        "Let a run go on from its failed tasks",
        "All of them, or those named; what succeeded stays as it is. Said twice, the same.",
        dag_views.RunWithTasks,
        dag_examples.RUN_WITH_TASKS,
        body=dag_bodies.RerunBody,
        body_example={"tasks": ["load"]},
    ),
    Route(
        "POST",
        "/dags/{id}/runs/{run}:cancel",
        cancel,
        "Cancel a run",
        "Begun or not: nothing more of it begins, and what runs is asked to stop. One that is over stays so.",
        dag_views.RunWithTasks,
        dag_examples.RUN_WITH_TASKS | {"state": "cancelled", "reason": "cancelled"},
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/dags/{id}/runs/{run}/tasks/{task}:force-complete",
        force_complete,
        "Say that a task of a run is done",
        "Its children go on as if it had succeeded with this output. Said twice, the same.",
        dag_views.RunWithTasks,
        dag_examples.RUN_WITH_TASKS,
        body=dag_bodies.CompleteBody,
        body_example={"output": ["a.csv", "b.csv"]},
    ),
    Route(
        "POST",
        "/dags/{id}/runs/{run}/tasks/{task}:skip",
        skip,
        "Leave a task of a run out",
        "Its children run without it, or are skipped as well. Said twice, the same.",
        dag_views.RunWithTasks,
        dag_examples.RUN_WITH_TASKS,
        body=dag_bodies.SkipBody,
        body_example={"children": "skip"},
    ),
)
