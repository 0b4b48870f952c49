"""Schemathesis over the OpenAPI document, with two tenants: no 5xx, no answer that is not described, nothing
accepted that the document forbids; and the things of one are never touched by the other.

Half of what is sent the document allows, half it does not. The ids of a path are often those of things that
are there, or nearly all answers would be 404.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from shardwheel.api.app import PREFIX, ROUTES
from shardwheel.api.events import EVENTS
from shardwheel.api.openapi import document
from shardwheel.api.route import Route
from tests.integration.api.rig import OF_ONE, Rig, token

pytestmark = pytest.mark.servers

EXAMPLES = 100
TENANTS = OWNER, STRANGER = "owner", "stranger"
DOCUMENT = schemathesis.openapi.from_dict(document(ROUTES, PREFIX, "1"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
STEADY = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def session(api: Rig) -> Iterator[requests.Session]:
    api.view = api.cluster.view()
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_answer_is_described(api: Rig, session: requests.Session, route: Route) -> None:
    own = api.ids(route.path, OWNER) if "{" in route.path else {}
    not_there = [(cases(route, tenant), False) for tenant in TENANTS]
    there = [(cases(route, tenant, own), tenant == STRANGER) for tenant in TENANTS if own]
    choices = [st.tuples(strategy, st.just(is_foreign)) for strategy, is_foreign in not_there + there]

    @STEADY
    @given(wish=st.one_of(choices))
    def ask(wish: tuple[Case[Any], bool]) -> None:
        case, is_foreign = wish
        answer = send(api, session, route, case)
        assert not (is_foreign and route in OF_ONE and answer.ok)

    ask()


def cases(route: Route, tenant: str, own: Mapping[str, str] | None = None) -> st.SearchStrategy[Case[Any]]:
    """What the document allows and, where it forbids anything, what it does not. `own`: with these ids."""
    operation = DOCUMENT[PREFIX + route.path][route.method]
    fixed: dict[str, Any] = {"headers": {"authorization": f"Bearer {token(tenant)}"}}
    if own:
        fixed["path_parameters"] = dict(own)
    forbids = route.body is not None or route.query or ("{" in route.path and not own)
    modes = GenerationMode if forbids else [GenerationMode.POSITIVE]
    return st.one_of([operation.as_strategy(generation_mode=mode, **fixed) for mode in modes])


def send(api: Rig, session: requests.Session, route: Route, case: Case[Any]) -> requests.Response:
    is_stream = route.reply_type == EVENTS
    answer = session.request(**case.as_transport_kwargs(base_url=str(api.client.base_url)), stream=is_stream)
    if is_stream:
        # It has no end: its head will do.
        answer.close()
        assert str(answer.status_code) in case.operation.definition.raw["responses"]
    else:
        case.validate_response(answer, checks=CHECKS)
    return answer
