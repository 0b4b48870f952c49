"""The calls and the API's routes: a method for each, and none that leads nowhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shardwheel import Client
from shardwheel.api.app import ROUTES
from shardwheel.api.rules import RULES
from shardwheel.client.answers import Answer
from shardwheel.client.method import Listing, listing, method
from shardwheel.client.script import Done, Reply, Send, advance

# Without a method: streams, and what is for probes, scrapers and tools. `request` reaches all but the first.
BY_HAND = {"GET /events", "GET /openapi.json", "GET /healthz", "GET /readyz", "GET /metrics"}


def described() -> dict[str, Any]:
    members = {name: value for kind in Client.__mro__ for name, value in vars(kind).items()}
    return {
        name: value.script if isinstance(value, method) else value.describe
        for name, value in members.items()
        if isinstance(value, method | listing) and name != "request"
    }


def asked_by(description: Any) -> Any:
    """Its script or listing, with `x` for every id."""
    wanted = [
        one
        for one in list(inspect.signature(description).parameters.values())[1:]
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    given = [[] if one.name == "jobs" else {} if one.name == "dag" else "x" for one in wanted]
    return description(Client("http://x", token="t"), *given)


def called(description: Any) -> str:
    """Method and path of its first request."""
    asked = asked_by(description)
    if isinstance(asked, Listing):
        return f"GET {asked.path}"
    send = next(asked)
    assert isinstance(send, Send)
    return f"{send.method} {send.path}"


def test_every_route_has_a_method_and_every_method_a_route() -> None:
    calls = {called(description) for description in described().values()} | {"GET /jobs/x/executions"}
    routes = {re.sub(r"\{\w+\}", "x", name) for name in RULES}
    assert calls == routes - BY_HAND


EXAMPLES = {re.sub(r"\{\w+\}", "x", route.name): route.example for route in ROUTES}
WAITING = {"wait", "wait_dag_run"}


@pytest.mark.parametrize("name", sorted(described().keys() - WAITING))
def test_what_the_api_answers_is_read(name: str) -> None:
    """By the route's own example: every field that must be there is, and of its type."""
    description = described()[name]
    example = msgspec.json.encode(EXAMPLES[called(description)])
    asked = asked_by(description)
    if isinstance(asked, Listing):
        for item in msgspec.json.decode(example)["items"]:
            assert isinstance(msgspec.convert(item, asked.kind), Answer)
        return
    next(asked)
    answer = advance(asked, Reply(200, example))
    assert isinstance(answer, Done)


def test_every_call_says_what_it_does() -> None:
    assert all((inspect.getdoc(description) or "").endswith(".") for description in described().values())
    assert Client("http://x").get_job.__doc__ == "A job as it stands."


def test_the_page_names_every_call() -> None:
    page = (Path(__file__).parents[3] / "docs" / "client.md").read_text()
    named = set(re.findall(r"`(\w+)", page))
    assert described().keys() - named == set()
