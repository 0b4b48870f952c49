"""What is said of a value that does not fit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from shardwheel.misfits import misfit_of


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["a", "b"] = "a"


class Needed(msgspec.Struct):
    at: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    pool: Literal["short", "long"] | None = None
    inner: Inner = Inner()
    name: str = ""
    limit: Annotated[int, Meta(ge=1)] | None = None
    tags: list[str] = []
    size: float = 0
    one: Needed | None = None
    all: list[Needed] = []
    missed: Annotated[Literal["skip", "one"], Meta(description="words about it")] = "skip"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"pool": "huge"}, "pool: 'huge' is unknown; choose one of long, short"),
        ({"inner": {"kind": "c"}}, "inner.kind: 'c' is unknown; choose one of a, b"),
        ({"missed": "many"}, "missed: 'many' is unknown; choose one of one, skip"),
        ({"name": 7}, "name: is a whole number; give a text"),
        ({"name": None}, "name: is null; give a text"),
        ({"limit": 0}, "limit: is out of range; give a whole number >= 1"),
        ({"limit": "x"}, "limit: is a text; give a whole number or null"),
        ({"tags": ["x", 7]}, "tags: is a whole number; give a text (each item of it)"),
        ({"size": True}, "size: is true or false; give a number"),
        ([], "body: is a list; give an object"),
        ({"kind": "a"}, "kind: there is no such field; see /api/v1/openapi.json"),
        ({"tgs": []}, "tgs: there is no such field; did you mean 'tags'? see /api/v1/openapi.json"),
        (
            {"inner": {"kinds": "a"}},
            "inner.kinds: there is no such field; did you mean 'kind'? see /api/v1/openapi.json",
        ),
        ({"inner": {"sort": "a"}}, "inner.sort: there is no such field; see /api/v1/openapi.json"),
        ({"inner": {"a`b.c": 1}}, "inner.a`b.c: there is no such field; see /api/v1/openapi.json"),
        ({"one": {}}, "one.at: is missing; see /api/v1/openapi.json"),
        ({"all": [{"at": 1}, {}]}, "all[1].at: is missing; see /api/v1/openapi.json"),
    ],
    ids=str,
)
def test_field_problem_and_remedy(value: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(value, Outer)
    field, problem, remedy = misfit_of(refused.value, Outer)
    assert f"{field}: {problem}; {remedy}" == said
