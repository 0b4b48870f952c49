"""The calls and the API's routes: a method for each, and none that leads nowhere."""

from __future__ import annotations

import inspect
import re
from typing import Any

from shardwheel import Client
from shardwheel.api.rules import RULES
from shardwheel.client.method import Listing, listing, method
from shardwheel.client.script import Send

# Without a method: streams, and what is for probes, scrapers and tools. `request` reaches all but the first.
BY_HAND = {"GET /events", "GET /openapi.json", "GET /healthz", "GET /readyz", "GET /metrics"}
# What `shardctl` asks for people who steer a cluster.
BY_HAND |= {"GET /rebalance", "PATCH /rebalance", "POST /partitions/x:move", "GET /pools"}
BY_HAND |= {"GET /jobs/x/explain", "POST /tasks/x:limit", "GET /dag-runs/x"}


def described() -> dict[str, Any]:
    members = {name: value for kind in Client.__mro__ for name, value in vars(kind).items()}
    return {
        name: value.script if isinstance(value, method) else value.describe
        for name, value in members.items()
        if isinstance(value, method | listing) and name != "request"
    }


def called(description: Any) -> str:
    """Method and path of its first request, `x` for every id."""
    wanted = [
        one
        for one in list(inspect.signature(description).parameters.values())[1:]
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    given = [[] if one.name == "jobs" else {} if one.name == "dag" else "x" for one in wanted]
    asked = description(Client("http://x", token="t"), *given)
    if isinstance(asked, Listing):
        return f"GET {asked.path}"
    send = next(asked)
    assert isinstance(send, Send)
    return f"{send.method} {send.path}"


def test_every_route_has_a_method_and_every_method_a_route() -> None:
    calls = {called(description) for description in described().values()} | {"GET /jobs/x/executions"}
    routes = {re.sub(r"\{\w+\}", "x", name) for name in RULES}
    assert calls == routes - BY_HAND


def test_every_call_says_what_it_does() -> None:
    assert all((inspect.getdoc(description) or "").endswith(".") for description in described().values())
    assert Client("http://x").get_job.__doc__ == "A job as it stands."
