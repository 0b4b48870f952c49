"""Nothing of one tenant can be read or changed by another, on any route; no role does more than it may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from shardwheel.api.app import PREFIX, ROUTES
from shardwheel.api.route import Route
from shardwheel.api.rules import RULES
from shardwheel.compose.postgres import PostgresServer
from shardwheel.roles import Role
from shardwheel.store import tenant_pool
from tests.integration.api.rig import OF_CLUSTER, OF_ONE, Rig, served, token
from tests.servers import fresh_database

pytestmark = pytest.mark.servers

LISTS = [route for route in ROUTES if route.method == "GET" and "{id}" not in route.path]
OF_TENANTS = [
    route for route in LISTS if RULES[route.name].role and route.path not in (*OF_CLUSTER, "/events")
]
GUARDED = [route for route in ROUTES if RULES[route.name].role is not None]
NOBODY = "00000000-0000-0000-0000-000000000000"
BY_NAME: Any = {"ids": lambda route: route.name}


@pytest.fixture(scope="module")
def bare(postgres_server: PostgresServer, migrated_template: str) -> Iterator[Rig]:
    """The API as a role that row-level security does not hold: each statement must name the tenant itself."""
    with pytest.MonkeyPatch.context() as patch, fresh_database(postgres_server, migrated_template) as dsn:
        patch.setattr(tenant_pool, "ROLE", "shardwheel_system")
        with served(dsn) as rig:
            yield rig


@pytest.fixture(params=["api", "bare"])
def either(request: pytest.FixtureRequest) -> Rig:
    """What must hold twice: by the statements, and by row-level security beneath them."""
    rig: Rig = request.getfixturevalue(request.param)
    return rig


@pytest.mark.parametrize("route", OF_ONE, **BY_NAME)
def test_another_tenants_id_is_not_found(either: Rig, route: Route) -> None:
    api = either
    tenant = f"victim of {route.name}"
    path = api.path(route.path, tenant)
    before = api.everything(tenant)
    answer = api.call(route.method, path, route.body_example, tenant="thief")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert api.everything(tenant) == before
    # And it was no accident: its owner does find it.
    assert api.call(route.method, path, route.body_example, tenant=tenant).status_code != 404


@pytest.mark.parametrize("route", OF_TENANTS, **BY_NAME)
def test_lists_hold_nothing_of_another_tenant(either: Rig, route: Route) -> None:
    api = either
    api.letter("busy")
    api.dag("busy")
    assert api.call("GET", route.path, tenant="busy").json()["items"]
    assert api.call("GET", route.path, tenant="idle").json()["items"] == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/jobs/{child}/dependencies/{their_job}", None),
        ("DELETE", "/jobs/{child}/dependencies/{their_job}", None),
        ("POST", "/jobs", {"task": "work", "parents": ["{their_job}"]}),
        ("POST", "/jobs", {"task": "work", "parents": ["{job}", "{their_job}"]}),
        ("POST", "/jobs:batch", [{"task": "work", "parents": ["{their_job}"]}]),
        ("POST", "/executions/{their_execution}:cancel", {"job_id": "{their_job}"}),
        ("POST", "/executions/{their_execution}:cancel", {"job_id": "{job}"}),
        ("GET", "/dags/{dag}/runs/{their_run}", None),
        ("POST", "/dags/{dag}/runs/{their_run}:rerun", {}),
        ("POST", "/dags/{dag}/runs/{their_run}:cancel", {}),
        ("POST", "/dags/{dag}/runs/{their_run}/tasks/extract:force-complete", {}),
        ("POST", "/dags/{dag}/runs/{their_run}/tasks/extract:skip", {}),
    ],
)
def test_nor_is_it_beside_ones_own(either: Rig, method: str, path: str, body: Any) -> None:
    api, ids = either, _ids(either)
    before = api.everything("victim")
    said = msgspec.json.decode(_filled(msgspec.json.encode(body).decode(), ids))
    answer = api.call(method, _filled(path, ids), said, tenant="thief")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), answer.text
    assert api.everything("victim") == before


@pytest.mark.parametrize(
    "path",
    [
        "/executions?job_id={their_job}",
        "/jobs?parent={their_job}",
        "/dead-letters?job_id={their_job}",
        "/dead-letters?state=all&job_id={their_job}",
        "/audit?object_id={their_job}",
        "/tasks?q=a-task-of-theirs",
        "/jobs?task=a-task-of-theirs",
        "/executions?task=a-task-of-theirs",
        "/executions?q=theirs",
        "/dags?task=a-task-of-theirs",
    ],
)
def test_a_filter_that_names_it_finds_nothing(either: Rig, path: str) -> None:
    ids = _ids(either)
    assert either.call("GET", _filled(path, ids), tenant="thief").json()["items"] == []
    # It names something: their own lists have it.
    own = either.call("GET", _filled(path, ids), tenant="victim").json()["items"]
    assert own or "parent" in path


def test_a_cursor_of_theirs_goes_on_in_ones_own_list(either: Rig) -> None:
    ids = _ids(either)
    either.job("victim")
    cursor = either.call("GET", "/jobs?limit=1", tenant="victim").json()["next_cursor"]
    assert cursor
    mine = {item["id"] for item in either.call("GET", "/jobs?limit=200", tenant="thief").json()["items"]}
    found = either.call("GET", f"/jobs?cursor={cursor}", tenant="thief").json()["items"]
    assert {item["id"] for item in found} <= mine and ids["their_job"] not in mine


def test_a_key_of_theirs_is_free(either: Rig) -> None:
    theirs = either.job("victim", idempotency_key="the same")
    mine = either.job("thief", idempotency_key="the same", params={"other": 1})
    assert mine["id"] != theirs["id"]
    run = [
        either.call(
            "POST", f"/jobs/{job['id']}:trigger", {"idempotency_key": "now", "params": params}, tenant=tenant
        ).json()["execution_id"]
        for job, params, tenant in ((theirs, {}, "victim"), (mine, {"x": 1}, "thief"))
    ]
    assert len(set(run)) == 2


def test_figures_of_partitions_count_ones_own_jobs(either: Rig) -> None:
    either.view = either.cluster.view()
    _ids(either)
    for tenant, count in (("nobody", 0), ("victim", None)):
        rows = either.call("GET", "/partitions", tenant=tenant).json()["items"]
        assert (sum(row["jobs"] for row in rows) == 0) is (count == 0)


@cache
def _ids(api: Rig) -> dict[str, str]:
    """Things of a victim, and a thief's own."""
    job = api.job("thief")
    child = api.job("thief", cron=None, parents=[job["id"]])
    their_job = api.job("victim", task="a-task-of-theirs")["id"]
    their_execution = api.call("POST", f"/jobs/{their_job}:trigger", tenant="victim").json()["execution_id"]
    letter = api.letter("victim", of=their_execution)
    their_dag = api.dag("victim", tasks=[{"key": "extract", "task": "a-task-of-theirs"}])["id"]
    return {
        "job": job["id"],
        "child": child["id"],
        "dag": api.dag("thief")["id"],
        "their_job": their_job,
        "their_execution": their_execution,
        "their_letter": letter,
        "their_run": api.run(their_dag, "victim"),
    }


def _filled(text: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def test_a_task_of_the_same_name_is_another_tenants_own(either: Rig) -> None:
    api = either
    api.job("named")
    assert api.call("POST", "/tasks/work:pause", tenant="thief").json()["paused"] is True
    (task,) = api.call("GET", "/tasks", tenant="named").json()["items"]
    assert (task["id"], task["paused"]) == ("work", False)


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_a_filter_reaches_nothing_of_another_tenant(either: Rig, verb: str) -> None:
    api = either
    letter = api.letter(f"filtered {verb}")
    answer = api.call("POST", f"/dead-letters:{verb}", {"all": True}, tenant="thief")
    assert answer.json()["done"] == 0
    read = api.call("GET", f"/dead-letters/{letter}", tenant=f"filtered {verb}").json()
    assert read["state"] == "open"


@pytest.mark.parametrize("route", GUARDED, **BY_NAME)
def test_without_a_token_nobody_passes(api: Rig, route: Route) -> None:
    path = PREFIX + route.path.replace("{id}", NOBODY).replace("{name}", "work")
    for header in ({}, {"authorization": "Basic YTpi"}, {"authorization": "Bearer x.y.z"}):
        answer = api.client.request(route.method, path, headers=header)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("route", GUARDED, **BY_NAME)
def test_a_lesser_role_is_refused_and_the_least_one_passes(api: Rig, route: Route) -> None:
    least = RULES[route.name].role
    assert least is not None
    path = re.sub(r"\{(id|run)\}", NOBODY, route.path).replace("{name}", "work").replace("{task}", "extract")
    for role in Role:
        answer = api.call(route.method, path, route.body_example, role=role.word, tenant="roles")
        assert (answer.status_code == 403) == (role < least), (role, answer.text)


@pytest.mark.parametrize("route", [route for route in GUARDED if RULES[route.name].tasks], **BY_NAME)
def test_a_token_for_some_tasks_is_held_to_them(api: Rig, route: Route) -> None:
    path = api.path(route.path, "limited")
    by_filter = route.path.startswith("/dead-letters:")
    body = {"all": True} if by_filter else route.body_example
    refused = api.call(route.method, path, body, tenant="limited", tasks=["something.else"])
    assert refused.status_code == 403
    passes = api.call(
        route.method, path, body, tenant="limited", tasks=["work", "email.send", "etl.extract", "etl.load"]
    )
    # What goes by filter can't be held to tasks: such a token may not do it at all.
    assert (passes.status_code == 403) == by_filter


def test_whoever_looks_is_not_held_to_tasks_and_whoever_acts_on_runs_is() -> None:
    """A token for one task can't stop another one's runs, nor bury its dead."""
    of_runs = {name for name in RULES if re.match(r"(POST|PUT|PATCH|DELETE) /(jobs|executions|d)", name)}
    assert {name for name in of_runs if not RULES[name].tasks} == set()
    assert not any(rule.tasks for name, rule in RULES.items() if name.startswith("GET "))


def test_a_token_for_some_tasks_cancels_no_run_of_others(api: Rig) -> None:
    dag = api.dag("limited")["id"]
    run, waiting = api.run(dag, "limited"), api.call("POST", f"/dags/{dag}:trigger", {}, tenant="limited")
    for execution_id in (run, waiting.json()["id"], api.execution("limited")):
        for path in (f"/executions/{execution_id}:cancel", f"/dags/{dag}/runs/{execution_id}:cancel"):
            answer = api.call("POST", path, {}, tenant="limited", tasks=["email.send"])
            assert answer.status_code == 403 or ("/dags/" in path and answer.status_code == 404), path
        assert api.call("GET", f"/executions/{execution_id}", tenant="limited").json()["state"] in (
            "queued",
            "running",
        )
    # Of a time that has no row yet, the job that is named says whose it is.
    job = api.job("limited")["id"]
    ahead = api.call(
        "POST", f"/executions/{NOBODY}:cancel", {"job_id": job}, tenant="limited", tasks=["email.send"]
    )
    assert ahead.status_code == 403


def test_an_edit_can_not_smuggle_another_task_in(api: Rig) -> None:
    job = api.job("limited")
    answer = api.call("PATCH", f"/jobs/{job['id']}", {"task": "other"}, tenant="limited", tasks=["work"])
    assert answer.status_code == 403
    assert api.call("GET", f"/jobs/{job['id']}", tenant="limited").json()["task"] == "work"


def test_every_guarded_route_is_here() -> None:
    assert len(OF_ONE) >= 26 and len(OF_TENANTS) >= 5 and token()
