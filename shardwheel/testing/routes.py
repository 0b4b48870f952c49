"""The API's routes on the tables in memory: those that a test of one's own jobs needs.

They take what the API takes and ask the same functions of `store/`. What is not here is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from shardwheel.client.script import Send
from shardwheel.dag import parse_dag
from shardwheel.errors import NotFoundError, UsageError
from shardwheel.ids import REDRIVE, execution_id, id_of, text_of
from shardwheel.memory.rows import EXECUTIONS, JOBS, Execution, put_execution
from shardwheel.output import shown_time
from shardwheel.posting import check_params, parse_posting
from shardwheel.showing import task_row
from shardwheel.store import alterations, creation, dag_alterations, dag_reading
from shardwheel.store.alterations import By
from shardwheel.store.audit import Actor
from shardwheel.store.creation import Found, Wish
from shardwheel.store.requests import cancel_execution
from shardwheel.store.task_types import list_tasks, pause_task, resume_task
from shardwheel.testing import reading
from shardwheel.testing.engine import Engine, Letter
from shardwheel.times import END_MS, parse_time

Answered = tuple[int, Any]
ACTOR = Actor("testing", "admin")
BY = By(ACTOR, lambda task: None)
MOST_OF_PAGE = 100


class Ask(NamedTuple):
    engine: Engine
    tenant: str
    path: dict[str, str]
    query: dict[str, Any]
    body: Any

    @property
    def id(self) -> bytes:
        return id_of(self.path["id"])

    def job(self) -> dict[str, Any]:
        (found,) = self.engine.transact(creation.read_jobs, self.tenant, [self.id])
        if found is None:
            raise NotFoundError(f"there is no job {text_of(self.id)}", field="id")
        return found.as_read()

    def paged(self, items: list[dict[str, Any]]) -> Answered:
        """What the filters of the query mean: fields of the items."""
        wanted = {name: word for name, word in self.query.items() if name not in ("limit", "cursor")}
        found = [item for item in items if all(_fits(item, name, word) for name, word in wanted.items())]
        first, count = int(self.query.get("cursor", 0)), int(self.query.get("limit", MOST_OF_PAGE))
        more = str(first + count) if first + count < len(found) else None
        return 200, {"items": found[first : first + count], "next_cursor": more}


def _fits(item: dict[str, Any], name: str, word: Any) -> bool:
    match name:
        case "tag":
            return word in item["tags"]
        case "q":
            return word.lower() in f"{item['name']} {item.get('task', '')}".lower()
        case "parent":
            return word in (item["parents"] or ())
        case "from":
            return _time_of(item) >= parse_time(word, name)
        case "to":
            return _time_of(item) < parse_time(word, name)
    if name not in item:
        raise UsageError(f"{name}: is no filter in shardwheel.testing: try that on a real API", field=name)
    return bool(item[name] == word)


def _time_of(item: dict[str, Any]) -> int:
    """By which the API filters: when it was made, if that is told, else its scheduled time."""
    return parse_time(item.get("created_at") or item["scheduled_at"], "time")


Route = Callable[[Ask], Answered]
_ROUTES: list[tuple[str, re.Pattern[str], Route]] = []


def route(name: str) -> Callable[[Route], Route]:
    method, path = name.split()
    pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", path))

    def register(function: Route) -> Route:
        _ROUTES.append((method, pattern, function))
        return function

    return register


def answer(engine: Engine, tenant: str, send: Send) -> Answered:
    body = msgspec.json.decode(send.body) if send.body else {}
    for method, pattern, function in _ROUTES:
        found = pattern.fullmatch(send.path)
        if method == send.method and found is not None:
            path = {name: unquote(word) for name, word in found.groupdict().items()}
            return function(Ask(engine, tenant, path, dict(send.query), body))
    raise UsageError(f"{send.method} {send.path} is not in shardwheel.testing: try that on a real API")


# --- jobs ---------------------------------------------------------------------------------------------


@route("POST /jobs")
def create(ask: Ask) -> Answered:
    wishes = [Wish(parse_posting(ask.body), ACTOR)]
    (made,) = ask.engine.transact(creation.create_all, ask.tenant, wishes)
    return 201, made.as_read()


@route("POST /jobs:batch")
def create_batch(ask: Ask) -> Answered:
    wishes = []
    for number, body in enumerate(ask.body):
        with creation.numbered(number):
            wishes.append(Wish(parse_posting(body), ACTOR))
    made = ask.engine.transact(creation.create_batch, ask.tenant, wishes)
    return 201, {"items": [found.as_read() for found in made]}


@route("GET /jobs")
def list_jobs(ask: Ask) -> Answered:
    rows = [stored.row for _, stored in sorted(ask.engine.server.tables[JOBS].items())]
    seen = [row for row in rows if row.state != "deleted" or ask.query.get("state") == "deleted"]
    return ask.paged([Found(row, ask.engine.now_ms).as_read() for row in seen])


@route("GET /jobs/{id}")
def get_job(ask: Ask) -> Answered:
    return 200, ask.job()


@route("PATCH /jobs/{id}")
def edit(ask: Ask) -> Answered:
    ask.engine.transact(alterations.edit, ask.tenant, ask.id, BY, ask.body)
    return 200, ask.job()


@route("DELETE /jobs/{id}")
def delete(ask: Ask) -> Answered:
    ask.engine.transact(alterations.delete, ask.tenant, ask.id, BY)
    return 200, ask.job()


@route("POST /jobs/{id}:pause")
def pause(ask: Ask) -> Answered:
    ask.engine.transact(alterations.pause, ask.tenant, ask.id, BY)
    return 200, ask.job()


@route("POST /jobs/{id}:resume")
def resume(ask: Ask) -> Answered:
    given = (ask.body.get("missed", "skip"), ask.body["idempotency_key"])
    _, count = ask.engine.transact(alterations.resume, ask.tenant, ask.id, BY, *given)
    return 200, ask.job() | {"backfilled": count}


@route("POST /jobs/{id}:trigger")
def trigger(ask: Ask) -> Answered:
    given = (ask.body.get("params"), ask.body["idempotency_key"])
    run_id, _ = ask.engine.transact(alterations.trigger, ask.tenant, ask.id, BY, *given)
    return 202, {"id": text_of(run_id), "execution_id": text_of(run_id), "job_id": text_of(ask.id)}


@route("POST /jobs/{id}:backfill")
def backfill(ask: Ask) -> Answered:
    span = parse_time(ask.body["from"], "from"), parse_time(ask.body["to"], "to")
    given = (span, ask.body["idempotency_key"])
    count, _ = ask.engine.transact(alterations.backfill, ask.tenant, ask.id, BY, *given)
    return 202, {"id": text_of(ask.id), "job_id": text_of(ask.id), "count": count}


@route("GET /jobs/{id}/next")
def next_times(ask: Ask) -> Answered:
    ask.job()
    job = ask.engine.server.tables[JOBS][ask.id].row
    after_ms = max(ask.engine.now_ms, job.effective_from_ms) - 1
    times = job.timing.times_between(after_ms, END_MS - 1) if job.state == "active" else iter(())
    return 200, {"items": [shown_time(time_ms) for time_ms in islice(times, int(ask.query.get("n", 10)))]}


# --- executions, task types, dead letters ----------------------------------------------------------------


@route("GET /executions")
def executions(ask: Ask) -> Answered:
    return ask.paged(reading.executions(ask.engine))


@route("GET /jobs/{id}/executions")
def executions_of_job(ask: Ask) -> Answered:
    ask.job()
    return ask.paged([one for one in reading.executions(ask.engine) if one["job_id"] == text_of(ask.id)])


@route("GET /executions/{id}")
def execution(ask: Ask) -> Answered:
    return 200, reading.execution(ask.engine, ask.id)


@route("GET /executions/{id}/explain")
def explain(ask: Ask) -> Answered:
    return 200, reading.explanation(ask.engine, ask.id)


@route("GET /executions/{id}/logs")
def logs(ask: Ask) -> Answered:
    lines = [line._asdict() for line in ask.engine.desk.lines.get(ask.id, [])]
    shown = [
        line | {"id": f"{line['attempt']}.{line['number']}", "at": shown_time(line.pop("at_ms"))}
        for line in lines
    ]
    attempt = ask.query.get("attempt")
    return 200, {"items": [line for line in shown if attempt in (None, line["attempt"])]}


@route("POST /executions/{id}:cancel")
def cancel(ask: Ask) -> Answered:
    job_id = ask.body.get("job_id")
    named = None if job_id is None else id_of(job_id, field="job_id")
    return 200, {"outcome": ask.engine.transact(cancel_execution, ask.tenant, ask.id, named)}


@route("GET /tasks")
def tasks(ask: Ask) -> Answered:
    found = ask.engine.transact(list_tasks, ask.tenant)
    return ask.paged([task_row(task) for task in found])


@route("POST /tasks/{name}:pause")
def task_paused(ask: Ask) -> Answered:
    return 200, task_row(ask.engine.transact(pause_task, ask.tenant, ask.path["name"], ACTOR.name))


@route("POST /tasks/{name}:resume")
def task_resumed(ask: Ask) -> Answered:
    return 200, task_row(ask.engine.transact(resume_task, ask.tenant, ask.path["name"]))


@route("GET /dead-letters")
def dead_letters(ask: Ask) -> Answered:
    return ask._replace(query={"state": "open"} | ask.query).paged(reading.letters(ask.engine))


@route("GET /dead-letters/{id}")
def dead_letter(ask: Ask) -> Answered:
    return 200, reading.letter(ask.engine, ask.id)


@route("POST /dead-letters/{id}:redrive")
def redrive(ask: Ask) -> Answered:
    params = ask.body.get("params") or reading.letter(ask.engine, ask.id)["params"]
    known = ask.engine.letters.get(ask.id, Letter()).redriven_as
    again = known or ask.engine.transact(_redriven, ask.engine, ask.id, params)
    ask.engine.letters[ask.id] = Letter("redriven", again)
    return 202, {"id": text_of(ask.id), "execution_id": text_of(again)}


def _redriven(conn: Any, engine: Engine, letter_id: bytes, params: dict[str, Any]) -> bytes:
    row = engine.server.tables[EXECUTIONS][letter_id]
    if row.dag_run_id is not None:
        raise UsageError("a dead letter of a DAG's task is not redriven in shardwheel.testing")
    check_params(params)
    again = execution_id(REDRIVE, row.job_id, row.partition, engine.now_ms, letter_id)
    whose = (row.tenant_id, row.partition, row.job_id, 1, "redrive", "queued")
    times = (engine.now_ms, engine.now_ms)
    put_execution(
        conn.transaction, Execution(again, *whose, *times, params=msgspec.json.encode(params).decode())
    )
    return again


@route("POST /dead-letters/{id}:discard")
def discard(ask: Ask) -> Answered:
    reading.letter(ask.engine, ask.id)
    ask.engine.letters[ask.id] = Letter("discarded")
    return 200, {"id": text_of(ask.id), "state": "discarded"}


# --- DAGs -----------------------------------------------------------------------------------------------


@route("POST /dags")
def create_dag(ask: Ask) -> Answered:
    key = ask.body.pop("idempotency_key", None)
    dag_id = ask.engine.transact(dag_alterations.create, ask.tenant, BY, parse_dag(ask.body), key)
    return 201, ask.engine.transact(dag_reading.read_dag, ask.tenant, dag_id)


@route("GET /dags/{id}")
def get_dag(ask: Ask) -> Answered:
    return 200, ask.engine.transact(dag_reading.read_dag, ask.tenant, ask.id)


@route("PATCH /dags/{id}")
def edit_dag(ask: Ask) -> Answered:
    ask.engine.transact(dag_alterations.edit, ask.tenant, ask.id, BY, ask.body, lambda posting: None)
    return get_dag(ask)


@route("DELETE /dags/{id}")
def delete_dag(ask: Ask) -> Answered:
    ask.engine.transact(dag_alterations.delete, ask.tenant, ask.id, BY)
    return get_dag(ask)


@route("POST /dags/{id}:pause")
def pause_dag(ask: Ask) -> Answered:
    ask.engine.transact(dag_alterations.pause, ask.tenant, ask.id, BY)
    return get_dag(ask)


@route("POST /dags/{id}:resume")
def resume_dag(ask: Ask) -> Answered:
    ask.engine.transact(dag_alterations.resume, ask.tenant, ask.id, BY)
    return get_dag(ask)


@route("POST /dags/{id}:trigger")
def trigger_dag(ask: Ask) -> Answered:
    given = (ask.body.get("params"), ask.body["idempotency_key"])
    run_id, _ = ask.engine.transact(dag_alterations.trigger, ask.tenant, ask.id, BY, *given)
    return 202, {"id": text_of(run_id), "dag_id": text_of(ask.id)}


@route("GET /dags/{id}/runs")
def dag_runs(ask: Ask) -> Answered:
    return ask.paged(reading.dag_runs(ask.engine, ask.id))


@route("GET /dags/{id}/runs/{run}")
def dag_run(ask: Ask) -> Answered:
    return 200, reading.dag_run(ask.engine, ask.tenant, id_of(ask.path["run"], field="run"))
