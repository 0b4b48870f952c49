"""The document: OpenAPI 3.1, made of the routes' own lines and of msgspec's schemas. Pure.

Not Litestar's own generator: it describes what its own parser reads, but a job is read by `posting`, whose
refusals name field, problem and remedy, and which every other door uses too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shardwheel.api import examples
from shardwheel.api.errors import LATER, refusal_of
from shardwheel.api.limits import LONGEST_WORD
from shardwheel.api.route import Route, Word
from shardwheel.api.rules import RULES, Rule
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

_REFERENCE = "#/components/schemas/{name}"
# What each means, and one of its kind.
_REFUSALS = {
    400: (
        "What was sent is wrong: the message names the field, the problem and the remedy.",
        UsageError("limit: 'x' is not a number in range; give 1 to 200", field="limit"),
    ),
    401: (
        "No token, or one that is not believed.",
        BadTokenError("the token is refused: it has expired; make one: shardctl token create"),
    ),
    403: (
        "The token's role or tasks do not allow it.",
        ForbiddenError("task: this token may not enqueue 'report.build'", field="task"),
    ),
    404: (
        "There is no such thing, or it belongs to another tenant.",
        NotFoundError("there is no job 019a9e5c-7e1b-7c3a-8f21-0c9d3b7a5e10", field="id"),
    ),
    409: (
        "The present state refuses it.",
        ConflictError("job 019a9e5c-7e1b-7c3a-8f21-0c9d3b7a5e10 is deleted", field="id"),
    ),
    413: (
        "Too large.",
        TooLargeError("body: has more than 196608 bytes; send less at a time", field="body"),
    ),
    429: (
        "Too much in too short a time: see Retry-After.",
        LimitedError(
            "submissions_per_s: more than 50 a second; try again in 1 s",
            field="submissions_per_s",
            retry_after_s=1,
        ),
    ),
    503: (
        "A server behind is out of reach, or too much is asked at once: see Retry-After.",
        UnavailableError("too many requests at once; try again in a moment"),
    ),
}
_HEADERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "retry-after": ("Retry-After", "In how many seconds to try again.", {"type": "integer", "minimum": 1}),
    "www-authenticate": ("WWW-Authenticate", "How to say who asks.", {"type": "string"}),
    "connection": ("Connection", "The rest of the body is not read.", {"type": "string"}),
}
_PATH_WORDS = {
    "parent_id": ("The parent's id.", examples.PARENT_ID),
    "id": ("The id, as it was given.", examples.JOB_ID),
    "name": ("Its name.", "email.send"),
    "run": ("The run's id.", examples.EXECUTION_ID),
    "task": ("The task's key in its DAG.", "load"),
}
# What is no UUID: whose ids they are.
_PATH_IDS = {"shards": "host-4711-9f86d081", "partitions": "17"}
_DESCRIPTION = """Millions of schedules, none lost, none run twice.

Times are ISO 8601 in UTC with milliseconds and `Z`. Lists are paged: give `next_cursor` as `cursor`.
Unknown fields and parameters are refused by name. Another tenant's things are not found."""


class ErrorInside(msgspec.Struct, forbid_unknown_fields=True):
    code: str
    message: Annotated[str, Meta(description="The field, the problem and the remedy.")]
    field: str | None
    maybe_applied: Annotated[
        bool | msgspec.UnsetType, Meta(description="Of a 503: it may have been done all the same.")
    ] = msgspec.UNSET


class Error(msgspec.Struct, forbid_unknown_fields=True):
    error: ErrorInside


def document(routes: Sequence[Route], prefix: str, version: str) -> dict[str, Any]:
    kinds = [kind for route in routes for kind in (route.body, route.reply) if kind is not None]
    schemas, components = msgspec.json.schema_components([*kinds, Error], ref_template=_REFERENCE)
    known = dict(zip([repr(kind) for kind in [*kinds, Error]], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, RULES[route.name], known)
        paths.setdefault(prefix + route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shardwheel", "version": version, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(route: Route, rule: Rule, known: dict[str, Any]) -> dict[str, Any]:
    who = "Anybody may." if rule.role is None else f"Wants the role {rule.role.word} or more."
    limited = " A token's `tasks` must name the job's task, or every one of the DAG's." if rule.tasks else ""
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": f"{route.description} {who}{limited}",
        "tags": [route.path.split("/")[1].split(":")[0]],
        "security": [] if rule.role is None else [{"token": []}],
        "parameters": [*_path_parameters(route), *map(_query_parameter, route.query)],
        "responses": _responses(route, rule, known),
    }
    if route.body is not None:
        content = {"schema": known[repr(route.body)], "example": route.body_example}
        operation["requestBody"] = {
            "required": bool(route.body_example),
            "content": {"application/json": content},
        }
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z]+", re.sub(r"\{\w+\}", "one", route.path))
    return "_".join([route.method.lower(), *words])


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [_path_parameter(name, route) for name in re.findall(r"\{(\w+)\}", route.path)]


def _path_parameter(name: str, route: Route) -> dict[str, Any]:
    is_uuid = name in ("run", "parent_id") or (name == "id" and route.id_is_uuid)
    what, example = _PATH_WORDS[name]
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": what,
        "schema": {"type": "string"} | ({"format": "uuid"} if is_uuid else {}),
        "example": example if is_uuid or name != "id" else _PATH_IDS[route.path.split("/")[1]],
    }


def _query_parameter(word: Word) -> dict[str, Any]:
    return {
        "name": word.name,
        "in": "query",
        "description": word.what,
        "schema": _query_schema(word),
        "example": word.example,
    }


def _query_schema(word: Word) -> dict[str, Any]:
    if isinstance(word.example, int):
        return {"type": "integer", "minimum": 1} | ({} if word.most is None else {"maximum": word.most})
    if word.choices:
        return {"type": "string", "enum": list(word.choices)}
    is_time = word.name in ("from", "to")
    return {"type": "string", "maxLength": LONGEST_WORD} | ({"format": "date-time"} if is_time else {})


def _responses(route: Route, rule: Rule, known: dict[str, Any]) -> dict[str, Any]:
    content = {route.reply_type: {"schema": known[repr(route.reply)], "example": route.example}}
    responses: dict[str, Any] = {str(route.status): {"description": route.summary, "content": content}}
    refusals = [400, 413, 429, 503] if rule.role is None else list(_REFUSALS)
    for status in refusals:
        responses[str(status)] = _refusal(status, known[repr(Error)])
    if route.also is not None:
        status, example = route.also
        told = {route.reply_type: {"schema": known[repr(route.reply)], "example": example}}
        headers = _headers(LATER if status == 503 else {})
        responses[str(status)] = {"description": route.description, "headers": headers, "content": told}
    return responses


def _refusal(status: int, schema: Any) -> dict[str, Any]:
    what, error = _REFUSALS[status]
    refusal = refusal_of(error)
    assert refusal is not None and refusal.status == status
    content = {"schema": schema, "example": msgspec.json.decode(refusal.body())}
    headers = _headers(refusal.headers())
    return {"description": what, "headers": headers, "content": {"application/json": content}}


def _headers(told: Mapping[str, str]) -> dict[str, Any]:
    headers = {}
    for name, value in told.items():
        shown, description, kind = _HEADERS[name]
        example = int(value) if kind["type"] == "integer" else value
        headers[shown] = {"description": description, "required": True, "schema": kind, "example": example}
    return headers
