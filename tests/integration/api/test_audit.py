"""Every route that changes something puts it on record: who, what, before and after. The table is walked, so
a new route without a row fails here."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.api.app import ROUTES
from shardwheel.api.route import Route
from tests.integration.api.cluster import SECOND
from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers
CHANGING = [route for route in ROUTES if route.method != "GET"]
# What the examples of the document would not change here.
BODIES: dict[str, Any] = {
    "POST /jobs/{id}:backfill": {"from": "2026-11-01T00:00:00Z", "to": "2026-11-10T00:00:00Z"},
    "POST /dead-letters:redrive": {"all": True},
    "POST /dead-letters:discard": {"all": True},
    "POST /executions/{id}:cancel": {},
    "POST /partitions/{id}:move": {"to": SECOND},
}


def prepared(api: Rig, route: Route, tenant: str) -> str:
    """A path where the route has something to do."""
    path = api.path(route.path, tenant)
    if route.path.endswith(":resume"):
        assert api.call("POST", path.replace(":resume", ":pause"), tenant=tenant).is_success
    if route.path.endswith(":rerun"):
        api.end_task(path.split("/")[-1].removesuffix(":rerun"), "extract")
    if route.path.endswith(":undrain"):
        assert api.call("POST", path.replace(":undrain", ":drain"), tenant=tenant).is_success
    if route.method == "PUT":
        assert api.call("DELETE", path, tenant=tenant).is_success
    if route.path.startswith("/dead-letters:"):
        api.letter(tenant)
    return path


@pytest.mark.parametrize("route", CHANGING, ids=lambda route: route.name)
def test_who_changes_something_is_on_record(api: Rig, route: Route) -> None:
    api.view = api.cluster.view()
    tenant = f"audited {route.name}"
    path = prepared(api, route, tenant)
    body = BODIES.get(route.name, {"tasks": ["extract"]} if "rerun" in path else route.body_example)
    known = len(entries(api, tenant))
    answer = api.call(route.method, path, body, tenant=tenant)
    assert answer.is_success, answer.text
    new = entries(api, tenant)[: -known or None]
    assert new, "nothing was put on record"
    for entry in new:
        assert (entry["actor"], entry["role"]) == ("ann", "admin")
        assert entry["object_kind"] and entry["action"]
        assert {"before", "after"} <= set(entry["details"]), entry
        assert entry["details"]["after"] is not None


def entries(api: Rig, tenant: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.call("GET", "/audit?limit=200", tenant=tenant).json()["items"]
    return items
