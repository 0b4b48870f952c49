"""The application: from a request to a route's answer, in one order for all of them.

    split off the verb → route → who is it → may they → query → body within limits → answer → measured

Litestar routes and speaks ASGI. What is raised on the way becomes an answer in one place.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

import msgspec
from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from litestar.types import Receive, Scope, Send

from shardwheel.api import (
    alerts,
    cluster,
    dag_runs,
    dags,
    dead_letters,
    dependencies,
    events,
    executions,
    health,
    job_commands,
    job_page,
    jobs,
    steering,
    tasks,
    wheel,
)
from shardwheel.api.auth import Gatekeeper
from shardwheel.api.desk import Desk
from shardwheel.api.errors import BROKEN, LATER, refusal_of
from shardwheel.api.limits import Intake, Query
from shardwheel.api.openapi import document
from shardwheel.api.route import ANYBODY, Ask, Reply, Route
from shardwheel.api.rules import RULES, check_role
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.logs import get_logger
from shardwheel.metrics import API_REQUEST
from shardwheel.times import refuse
from shardwheel.tokens import Caller

PREFIX = "/api/v1"
MOST_UNDER_WAY = 2_000
# Stands for a slash inside of a name; Unicode promises never to make it a character.
_SLASH = "\ufdd0"

ServedRequest = Request[Any, Any, State]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def openapi(ask: Ask) -> Reply:
    return Reply(_document())


@cache
def _document() -> bytes:
    return msgspec.json.encode(document(ROUTES, PREFIX, version("shardwheel")))


DOCUMENT = Route(
    "GET",
    "/openapi.json",
    openapi,
    "This document",
    "OpenAPI 3.1.",
    dict[str, Any],
    {"openapi": "3.1.0", "info": {"title": "Shardwheel", "version": "0.1.0"}, "paths": {}},
)
ROUTES: tuple[Route, ...] = (
    *jobs.ROUTES,
    *job_page.ROUTES,
    *job_commands.ROUTES,
    *dependencies.ROUTES,
    *executions.ROUTES,
    *tasks.ROUTES,
    *dags.ROUTES,
    *dag_runs.ROUTES,
    *dead_letters.ROUTES,
    *cluster.ROUTES,
    *wheel.ROUTES,
    *events.ROUTES,
    *steering.ROUTES,
    *alerts.ROUTES,
    DOCUMENT,
    *health.ROUTES,
)


def make_app(desk: Desk, gatekeeper: Gatekeeper) -> App:
    front = _Front(desk, gatekeeper)
    # Probes look for these at the root, as on every service.
    at_root = [front.handler(route, "") for route in health.ROUTES]
    app = Litestar(
        [*(front.handler(route, PREFIX) for route in ROUTES), *at_root],
        openapi_config=None,
        logging_config=None,
        exception_handlers={Exception: _refused},
        request_max_body_size=None,
    )

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            scope["path"] = verb_split_off(path_of(scope))
            if scope["method"] == "OPTIONS":
                # Litestar would answer it, whoever asks; no route is beside the table of rules.
                scope["method"] = "TRACE"
        await app(scope, receive, send)

    return door


def path_of(scope: Scope) -> str:
    """The path as it is routed: a slash inside of a name (`/tasks/reports%2Fdaily:pause`) parts nothing."""
    raw: bytes = scope["raw_path"]
    if b"%2" not in raw:
        return scope["path"]
    return unquote(raw.decode("latin-1").replace("%2F", _SLASH).replace("%2f", _SLASH))


def verb_split_off(path: str) -> str:
    """`/jobs/7:pause` → `/jobs/7/:pause`. That form itself is no address of ours."""
    if "/:" in path:
        return "/"
    head, slash, last = path.rpartition("/")
    return head + slash + "/:".join(last.rsplit(":", 1))


class _Front:
    """What all requests of a process share."""

    def __init__(self, desk: Desk, gatekeeper: Gatekeeper) -> None:
        self._desk = desk
        self._gatekeeper = gatekeeper
        self._intake = Intake()
        self._under_way = 0

    def handler(self, route: Route, prefix: str) -> HTTPRouteHandler:
        measured = API_REQUEST.labels(route.name)

        async def serve(request: ServedRequest) -> Response[Any]:
            begun_at_s = time.perf_counter()
            try:
                return await self._serve(route, request)
            except Exception as error:
                return _refused(request, error)
            finally:
                measured.observe(time.perf_counter() - begun_at_s)

        path = re.sub(r"\{(\w+)\}", r"{\1:str}", verb_split_off(prefix + route.path))
        return HTTPRouteHandler(path, http_method=route.method, status_code=route.status)(serve)

    async def _serve(self, route: Route, request: ServedRequest) -> Response[Any]:
        if self._under_way >= MOST_UNDER_WAY:
            raise UnavailableError("too many requests at once; try again in a moment")
        self._under_way += 1
        try:
            caller = self._admit(route, request)
            path = {name: _path_word(name, word) for name, word in request.path_params.items()}
            query = Query(request.scope["query_string"], (word.name for word in route.query))
            if route.body is None:
                reply = await route.answer(Ask(self._desk, caller, path, query, b"", request.headers))
            else:
                chunks = _body_of(request.receive)
                async with self._intake.body(request.headers, chunks, route.body_limit) as body:
                    reply = await route.answer(Ask(self._desk, caller, path, query, body))
        finally:
            self._under_way -= 1
        if isinstance(reply.value, AsyncIterator):
            return Stream(reply.value, media_type=reply.content_type, headers={"cache-control": "no-store"})
        content = reply.value if isinstance(reply.value, bytes) else msgspec.json.encode(reply.value)
        later = LATER if reply.status == 503 else {}
        return Response(content, status_code=reply.status, media_type=reply.content_type, headers=later)

    def _admit(self, route: Route, request: ServedRequest) -> Caller:
        role = RULES[route.name].role
        if role is None:
            return ANYBODY
        caller = self._gatekeeper.caller(request.headers.get("authorization"))
        check_role(caller, route.name, role)
        return caller


def _path_word(name: str, word: str) -> str:
    if "\0" in word:
        refuse(name, "has a NUL character", "take it out")
    return word.replace(_SLASH, "/")


async def _body_of(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise UsageError("body: its client went away before its end", field="body")
        more = event["more_body"]
        yield event["body"]


def _refused(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    refusal = refusal_of(error)
    if refusal is None:
        get_logger().error("a request failed", path=request.scope["path"], exc_info=error)
        refusal = BROKEN
    return Response(
        refusal.body(), status_code=refusal.status, media_type="application/json", headers=refusal.headers()
    )
