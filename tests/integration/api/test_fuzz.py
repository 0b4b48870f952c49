"""Chance against every route: no 5xx, and no answer that the document does not describe."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardwheel.api.app import PREFIX, ROUTES
from shardwheel.api.openapi import document
from shardwheel.api.route import Route
from tests.integration.api.cluster import FIRST
from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers

DOCUMENT = document(ROUTES, PREFIX, "1")
EXAMPLES = 100

texts = st.text(max_size=20) | st.sampled_from(
    ["", "\0", "1s", "* * * * *", "2026-11-20T09:00:00Z", "é", "'", "%"]
)
numbers = (
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0, -1, 2**63, 1e308])
)
plain = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


def bodies(route: Route) -> st.SearchStrategy[Any]:
    """Anything at all, or the example with some of its possible fields made of anything."""
    if route.body is None:
        return st.none()
    batch = isinstance(route.body_example, list)
    example = route.body_example[0] if batch else route.body_example
    kind = route.body.__args__[0] if batch else route.body
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    spoiled = st.dictionaries(st.sampled_from(names) if names else texts, values, max_size=3).map(
        lambda changes: example | changes
    )
    return values | (st.lists(spoiled, max_size=3) if batch else spoiled)


def queries(route: Route) -> st.SearchStrategy[dict[str, str]]:
    words = [word.name for word in route.query]
    return (
        st.dictionaries(st.sampled_from(words), texts | st.uuids().map(str), max_size=2)
        if words
        else st.just({})
    )


@pytest.fixture(scope="module")
def things(api: Rig) -> dict[str, str]:
    api.view = api.cluster.view()
    return {
        "/shards": FIRST,
        "/jobs": api.job("fuzz")["id"],
        "/executions": api.execution("fuzz"),
        "/dead-letters": api.letter("fuzz"),
        "/alerts": api.alert("fuzz"),
    }


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_no_answer_is_a_surprise(api: Rig, things: dict[str, str], route: Route) -> None:
    operation = DOCUMENT["paths"][PREFIX + route.path][route.method.lower()]
    own = next((thing for start, thing in things.items() if route.path.startswith(start)), "work")
    ids = st.just(own) if "{id}" in route.path else st.sampled_from(["work", "a:b", "é"])

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(body=bodies(route), query=queries(route), thing=ids)
    def ask(body: Any, query: dict[str, str], thing: str) -> None:
        path = route.path.replace("{id}", thing).replace("{name}", thing)
        answer = api.call(route.method, path, body, params=query, tenant="fuzz")
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in operation["responses"], answer.text
        if answer.status_code == route.status and route.reply_type == "application/json":
            msgspec.convert(answer.json(), route.reply)
        elif answer.status_code >= 400:
            assert answer.json()["error"]["message"]

    ask()
