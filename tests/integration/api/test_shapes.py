"""The shapes that the contract promises of every answer: walked, so that a new route can't break them.

Every object has an `id`, every time is ISO 8601 in UTC with milliseconds and `Z`, every list is
`{"items", "next_cursor"}` with `limit` and `cursor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from shardwheel.api.app import ROUTES
from shardwheel.api.route import Route
from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers
TENANT = "shapes"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# Anything that was meant to be one.
NEARLY = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
NOT_JSON = {"GET /events", "GET /metrics", "GET /openapi.json"}
# Answers that are no objects of their own: probes, and how the cluster stands.
NO_OBJECT = {"GET /healthz", "GET /readyz", "GET /rebalance"}
READING = [route for route in ROUTES if route.method == "GET" and route.name not in NOT_JSON]
LISTING = [route for route in READING if "items" in route.example]


@pytest.fixture(scope="module", autouse=True)
def things(api: Rig) -> None:
    """One of everything."""
    api.view = api.cluster.view()
    api.letter(TENANT)
    api.alert("shapes")


def answered(api: Rig, route: Route, query: str = "") -> Any:
    answer = api.call("GET", api.path(route.path, TENANT) + query, tenant=TENANT)
    assert answer.status_code == 200, answer.text
    return answer.json()


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


@pytest.mark.parametrize("route", READING, ids=lambda route: route.name)
def test_every_object_has_an_id_and_every_time_is_written_alike(api: Rig, route: Route) -> None:
    found = answered(api, route)
    if route.name not in NO_OBJECT:
        objects = [item for item in found.get("items", [found]) if isinstance(item, dict)]
        assert all(isinstance(one["id"], str) and one["id"] for one in objects)
    wrong = [text for text in texts(found) if NEARLY.fullmatch(text) and not TIME.fullmatch(text)]
    assert wrong == []


@pytest.mark.parametrize("route", LISTING, ids=lambda route: route.name)
def test_every_list_is_one(api: Rig, route: Route) -> None:
    found = answered(api, route)
    assert isinstance(found["items"], list) and found["next_cursor"] is None


# How many are counted by `n` and `buckets` there.
@pytest.mark.parametrize(
    "route",
    [route for route in LISTING if route.path not in ("/jobs/{id}/next", "/wheel")],
    ids=lambda route: route.name,
)
def test_every_list_is_paged_by_cursor(api: Rig, route: Route) -> None:
    path = api.path(route.path, TENANT)
    for limit in ("0", "201", "x"):
        refused = api.call("GET", f"{path}?limit={limit}", tenant=TENANT)
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, "limit")
    whole = [item["id"] for item in api.call("GET", path, tenant=TENANT).json()["items"]]
    walked, query = list[str](), "?limit=1"
    while len(walked) < min(len(whole), 5):
        page = api.call("GET", path + query, tenant=TENANT).json()
        assert len(page["items"]) == 1
        walked.append(page["items"][0]["id"])
        query = f"?limit=1&cursor={page['next_cursor']}"
    # The audit and the like may have grown at their front meanwhile; a walk is not moved by that.
    assert walked == whole[: len(walked)]


def test_partitions_are_all_there_without_a_limit_and_in_their_order(api: Rig) -> None:
    whole = [item["partition"] for item in answered(api, by_name("GET /partitions"))["items"]]
    assert whole == list(range(256))
    second = answered(api, by_name("GET /partitions"), "?limit=200&cursor=199")
    assert [item["partition"] for item in second["items"]] == list(range(200, 256))
    assert second["next_cursor"] is None


def by_name(name: str) -> Route:
    return next(route for route in ROUTES if route.name == name)
