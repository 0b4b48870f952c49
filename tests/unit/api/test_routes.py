"""The table of rules, and the document: neither forgets a route."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shardwheel.api import bodies, dag_bodies
from shardwheel.api.app import PREFIX, ROUTES, verb_split_off
from shardwheel.api.errors import refusal_of
from shardwheel.api.openapi import Error, document
from shardwheel.api.route import Route
from shardwheel.api.rules import RULES
from shardwheel.dag import OF_DAG, OF_TASK
from shardwheel.errors import (
    BadTokenError,
    ConflictError,
    ForbiddenError,
    LimitedError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
    UsageError,
)
from shardwheel.posting import JobPosting
from shardwheel.roles import Role

DOCUMENT = document(ROUTES, PREFIX, "1.2.3")
OPERATIONS = {
    f"{method.upper()} {path.removeprefix(PREFIX)}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    assert sorted(RULES) == sorted(route.name for route in ROUTES)


def test_only_these_are_for_anybody() -> None:
    public = {name for name, rule in RULES.items() if rule.role is None}
    assert public == {"GET /openapi.json", "GET /healthz", "GET /readyz", "GET /metrics"}


def test_who_looks_changes_nothing_and_who_changes_is_no_viewer() -> None:
    for name, rule in RULES.items():
        if not name.startswith("GET "):
            assert rule.role is not None and rule.role > Role.VIEWER, name


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_the_document_describes_every_route(route: Route) -> None:
    operation = OPERATIONS[route.name]
    assert operation["summary"] and operation["description"].endswith(".")
    (content,) = operation["responses"][str(route.status)]["content"].values()
    assert content["schema"] and content["example"]
    assert {"400", "503"} <= set(operation["responses"])
    assert [word["name"] for word in operation["parameters"] if word["in"] == "query"] == [
        word.name for word in route.query
    ]
    assert all(word["description"] and "example" in word for word in operation["parameters"])
    assert ("requestBody" in operation) == (route.body is not None) == (route.method in ("POST", "PATCH"))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_refusals_are_described_as_they_come(route: Route) -> None:
    """With their headers, and an example of their kind: a client is written by them."""
    own = {str(route.status)} | ({str(route.also[0])} if route.also else set())
    for status, answer in OPERATIONS[route.name]["responses"].items():
        if status in own:
            continue
        (content,) = answer["content"].values()
        error = msgspec.convert(content["example"], Error).error
        refusal = refusal_of(KINDS[status]("x"))
        assert refusal is not None and refusal.code == error.code and error.message
        told = {name: header["example"] for name, header in answer["headers"].items()}
        assert told == HEADERS.get(status, {})
        assert all(header["required"] and header["description"] for header in answer["headers"].values())


KINDS: dict[str, Any] = {
    "400": UsageError,
    "401": BadTokenError,
    "403": ForbiddenError,
    "404": NotFoundError,
    "409": ConflictError,
    "413": TooLargeError,
    "429": LimitedError,
    "503": UnavailableError,
}
HEADERS: dict[str, dict[str, Any]] = {
    "401": {"WWW-Authenticate": "Bearer"},
    "413": {"Connection": "close"},
    "429": {"Retry-After": 1},
    "503": {"Retry-After": 1},
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_examples_are_what_they_are_examples_of(route: Route) -> None:
    msgspec.convert(route.example, route.reply)
    if route.body is not None:
        msgspec.convert(route.body_example, route.body)


def test_a_process_that_is_unwell_is_described_as_it_says_so() -> None:
    """Not as a refusal: what is wrong stands in the same form as what is well."""
    answers = OPERATIONS["GET /healthz"]["responses"]
    schemas = [answers[status]["content"]["application/json"]["schema"] for status in ("200", "503")]
    assert schemas[0] == schemas[1] != answers["400"]["content"]["application/json"]["schema"]
    assert answers["503"]["headers"]["Retry-After"]["required"]


def test_names_of_operations_differ_and_references_lead_somewhere() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    for reference in references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in DOCUMENT["components"]["schemas"]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for inner in value.values() for found in references(inner)]
    return [found for inner in value for found in references(inner)] if isinstance(value, list) else []


def test_a_job_is_described_as_it_is_read() -> None:
    described = {field.name for field in msgspec.structs.fields(bodies.JobBody)}
    assert described == {field.name for field in msgspec.structs.fields(JobPosting)}


def test_a_dag_and_its_tasks_are_described_as_they_are_read() -> None:
    described = {field.name for field in msgspec.structs.fields(dag_bodies.DagBody)} - {"idempotency_key"}
    assert described == OF_DAG | {"policy", "sla_s", "tasks"}
    assert {field.name for field in msgspec.structs.fields(dag_bodies.DagTaskBody)} == OF_TASK


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/api/v1/jobs:batch", "/api/v1/jobs/:batch"),
        ("/api/v1/jobs/7:pause", "/api/v1/jobs/7/:pause"),
        ("/api/v1/jobs/7", "/api/v1/jobs/7"),
        ("/api/v1/jobs/7/:pause", "/"),
        ("/api/v1/tasks/a:b:pause", "/api/v1/tasks/a:b/:pause"),
    ],
)
def test_the_verb_is_split_off(path: str, inside: str) -> None:
    assert verb_split_off(path) == inside
