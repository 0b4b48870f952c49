"""Every field of every body, by its name: the table of routes is walked, so a new one is held to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shardwheel.api.app import PREFIX, ROUTES
from shardwheel.api.route import Route
from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers
WITH_BODY = [route for route in ROUTES if route.body is not None]
# The document's own lies in the future.
BODIES = {"POST /jobs/{id}:backfill": {"from": "2026-11-01T00:00:00Z", "to": "2026-11-10T00:00:00Z"}}
# No field takes all of them, and most take none.
ODD: list[Any] = [{"x": [1]}, [[1]], "no sense ☃", True, -1e300, 7, ""]


def fields(route: Route) -> list[str]:
    kind = route.body.__args__[0] if isinstance(route.body_example, list) else route.body
    return [field.encode_name for field in msgspec.structs.fields(kind)]


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.name)
def test_a_refusal_names_the_field_the_problem_and_the_remedy(api: Rig, route: Route) -> None:
    api.view = api.cluster.view()
    tenant = f"refused {route.name}"
    path, is_list = api.path(route.path, tenant), isinstance(route.body_example, list)
    example = route.body_example[0] if is_list else BODIES.get(route.name, route.body_example)
    for name, value in [("surprise", 1), *((name, value) for name in fields(route) for value in ODD)]:
        body = example | {name: value}
        answer = api.call(route.method, path, [body] if is_list else body, tenant=tenant)
        # What is well-formed may name what is not there, or what the present state refuses.
        assert answer.is_success or answer.status_code in (400, 404, 409), (body, answer.text)
        assert answer.status_code == 400 or name != "surprise"
        if answer.status_code == 400:
            error = answer.json()["error"]
            assert error["field"].startswith(f"[0].{name}" if is_list else name), (body, error)
            problem, _, remedy = error["message"].removeprefix(f"{error['field']}: ").partition("; ")
            assert problem and remedy, error


def test_whoever_is_unwell_says_when_to_ask_again(api: Rig) -> None:
    """A 503 of every kind does, this one too."""
    api.health.unwell("etcd", "out of reach")
    answer = api.client.get(f"{PREFIX}/healthz")
    api.health.well("etcd")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "retry-after" not in api.client.get(f"{PREFIX}/healthz").headers
