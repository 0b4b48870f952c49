"""Lists: filtered as the contract says, by cursor and never by offset; nothing sneaks in through a word."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from shardwheel.api.app import ROUTES
from shardwheel.api.route import Route
from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers
PAGED = [route for route in ROUTES if "cursor" in [word.name for word in route.query]]
SOME = {"task": "Report.build", "name": "the Monthly one", "tags": ["billing"]}
HIT = {
    "/jobs": ["task=Report.build", "tag=billing", "q=monthly", "q=report", "state=active"],
    "/executions": ["task=Report.build", "tag=billing", "q=monthly", "q=report", "state=queued"],
    "/dead-letters": ["task=Report.build", "q=report", "q=connection+lost", "state=open", "class=Timeout"],
    "/tasks": ["q=report"],
}
MISS = {
    "/jobs": ["task=report.build", "tag=bill", "q=weekly", "state=paused"],
    "/executions": ["task=other", "tag=bill", "q=weekly", "state=dead"],
    "/dead-letters": ["task=other", "q=weekly", "state=discarded", "class=Other"],
    "/tasks": ["q=weekly"],
}
ANY_TEXT = ("/tasks", "/audit", "/shards", "/partitions", "/pools")
OLD, NEW = quote("2026-01-01T00:00:00Z"), quote("2030-01-01T00:00:00Z")


def fill(api: Rig, tenant: str) -> None:
    api.execution(tenant, **SOME)
    letter = api.letter(tenant, task="Report.build")
    with psycopg.connect(api.dsn) as conn:
        conn.execute(
            "UPDATE shardwheel.dead_letters SET class = 'Timeout', message = 'Connection lost' "
            "WHERE dead_letter_id = %s",
            [letter],
        )


@pytest.mark.parametrize("path", HIT)
def test_a_list_is_filtered(api: Rig, path: str) -> None:
    if not api.call("GET", "/jobs", tenant="listed").json()["items"]:
        fill(api, "listed")
    spans = [f"from={OLD}", f"to={NEW}"], [f"to={OLD}", f"from={NEW}"]
    hits, misses = ([], []) if path == "/tasks" else spans
    for query in HIT[path] + hits:
        assert api.call("GET", f"{path}?{query}", tenant="listed").json()["items"], query
    for query in MISS[path] + misses:
        assert api.call("GET", f"{path}?{query}", tenant="listed").json()["items"] == [], query


def test_task_types_are_paged_by_name(api: Rig) -> None:
    for task in ("b", "A", "é", "c"):
        api.job("tasks", task=task)
    page = api.call("GET", "/tasks?limit=3", tenant="tasks").json()
    rest = api.call("GET", "/tasks", tenant="tasks", params={"cursor": page["next_cursor"]}).json()
    assert [item["id"] for item in page["items"] + rest["items"]] == ["A", "b", "c", "é"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("route", PAGED, ids=lambda route: route.name)
def test_injection_into_sort_fields_and_offsets(api: Rig, route: Route) -> None:
    """Nobody chooses the order, so there is nothing to inject into."""
    path = api.path(route.path, "sorted")
    for word in ("sort", "order_by", "order", "offset", "page"):
        answer = api.call("GET", path, tenant="sorted", params={word: "name; DROP TABLE shardwheel.jobs"})
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, word)


@pytest.mark.parametrize("route", PAGED, ids=lambda route: route.name)
def test_a_cursor_that_is_none_of_ours(api: Rig, route: Route) -> None:
    api.view = api.cluster.view()
    path = api.path(route.path, "cursors")
    for cursor in ("' OR 1=1 --", "0", "-1", "%", "x" * 201, "\0", "00000000-0000-0000-0000-00000000000g"):
        answer = api.call("GET", path, tenant="cursors", params={"cursor": cursor})
        # What any text may be is compared, never executed.
        allowed: tuple[Any, ...] = (200, 400) if route.path in ANY_TEXT else (400,)
        assert answer.status_code in allowed, (cursor, answer.text)
