"""Nothing of one tenant can be read or changed by another, on any route; no role does more than it may."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shardwheel.api.app import PREFIX, ROUTES
from shardwheel.api.route import Route
from shardwheel.api.rules import RULES
from shardwheel.roles import Role
from tests.integration.api.rig import OF_CLUSTER, OF_ONE, Rig, token

pytestmark = pytest.mark.servers

LISTS = [route for route in ROUTES if route.method == "GET" and "{id}" not in route.path]
OF_TENANTS = [
    route for route in LISTS if RULES[route.name].role and route.path not in (*OF_CLUSTER, "/events")
]
GUARDED = [route for route in ROUTES if RULES[route.name].role is not None]
NOBODY = "00000000-0000-0000-0000-000000000000"
BY_NAME: Any = {"ids": lambda route: route.name}


@pytest.mark.parametrize("route", OF_ONE, **BY_NAME)
def test_another_tenants_id_is_not_found(api: Rig, route: Route) -> None:
    tenant = f"victim of {route.name}"
    path = api.path(route.path, tenant)
    before = api.everything(tenant)
    answer = api.call(route.method, path, route.body_example, tenant="thief")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert api.everything(tenant) == before
    # And it was no accident: its owner does find it.
    assert api.call(route.method, path, route.body_example, tenant=tenant).status_code != 404


@pytest.mark.parametrize("route", OF_TENANTS, **BY_NAME)
def test_lists_hold_nothing_of_another_tenant(api: Rig, route: Route) -> None:
    api.letter("busy")
    api.dag("busy")
    assert api.call("GET", route.path, tenant="busy").json()["items"]
    assert api.call("GET", route.path, tenant="idle").json()["items"] == []


def test_a_task_of_the_same_name_is_another_tenants_own(api: Rig) -> None:
    api.job("named")
    assert api.call("POST", "/tasks/work:pause", tenant="thief").json()["paused"] is True
    (task,) = api.call("GET", "/tasks", tenant="named").json()["items"]
    assert (task["id"], task["paused"]) == ("work", False)


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_a_filter_reaches_nothing_of_another_tenant(api: Rig, verb: str) -> None:
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
    body = {"all": True} if route.path == "/dead-letters:redrive" else route.body_example
    refused = api.call(route.method, path, body, tenant="limited", tasks=["something.else"])
    assert refused.status_code == 403
    passes = api.call(
        route.method, path, body, tenant="limited", tasks=["work", "email.send", "etl.extract", "etl.load"]
    )
    # A redrive by filter can't be held to tasks: such a token may not do it at all.
    assert (passes.status_code == 403) == (route.path == "/dead-letters:redrive")


def test_an_edit_can_not_smuggle_another_task_in(api: Rig) -> None:
    job = api.job("limited")
    answer = api.call("PATCH", f"/jobs/{job['id']}", {"task": "other"}, tenant="limited", tasks=["work"])
    assert answer.status_code == 403
    assert api.call("GET", f"/jobs/{job['id']}", tenant="limited").json()["task"] == "work"


def test_every_guarded_route_is_here() -> None:
    assert len(OF_ONE) >= 26 and len(OF_TENANTS) >= 5 and token()
