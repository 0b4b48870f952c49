"""What msgspec says of a value that does not fit, in our words: the field, the problem and the remedy. Pure.

Its own message names the first two, in the words of a type checker; a caller wants to know what to send.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec

_WORDS: Final = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(.*?)(?:, got `([^`]+)`)?")
_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Invalid enum value (.+)")

_SEE: Final = "see /api/v1/openapi.json"
_LONGEST_SLIP: Final = 40


class Misfit(NamedTuple):
    """`field` is a path such as `backoff.kind`; `body`: the whole of it."""

    field: str
    problem: str
    remedy: str


def misfit_of(error: msgspec.ValidationError, kind: Any) -> Misfit:
    """`kind`: what the value was to become."""
    said, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if found := _FIELD.fullmatch(said):
        field = f"{path}.{found[2]}".lstrip(".")
        if found[1] == "missing required":
            return Misfit(field, "is missing", _SEE)
        known = _fields(msgspec.inspect.type_info(kind), path.split(".") if path else [])
        return Misfit(field, "there is no such field", f"{meant(found[2], known)} {_SEE}".lstrip())
    field = path.split("[")[0] or "body"
    if found := _UNKNOWN.fullmatch(said):
        choices = ", ".join(_choices(msgspec.inspect.type_info(kind), field.split(".")))
        return Misfit(field, f"{found[1]:.80} is unknown", f"choose one of {choices}")
    if found := _EXPECTED.fullmatch(said):
        expected, limit, got = found.groups()
        where = " (each item of it)" if "[" in path else ""
        problem = "is out of range" if got is None else f"is {_words(got)}"
        return Misfit(field, problem, f"give {_words(expected)}{limit}{where}")
    return Misfit(field, f"{said[0].lower()}{said[1:]}", _SEE)


def meant(name: str, known: Iterable[str]) -> str:
    """The word that a slip of the pen is nearest to, as a question; nothing if none is near."""
    near = get_close_matches(name[:_LONGEST_SLIP], sorted(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(one, one) for one in types.split(" | "))


def _choices(info: Any, path: list[str]) -> list[str]:
    """What a Literal at the end of the path lets pass."""
    return [
        str(value)
        for one in _ends(info, path)
        if isinstance(one, msgspec.inspect.LiteralType)
        for value in one.values
    ]


def _fields(info: Any, path: list[str]) -> list[str]:
    """What an object at the end of the path may have."""
    return [
        field.encode_name
        for one in _ends(info, path)
        if isinstance(one, msgspec.inspect.StructType)
        for field in one.fields
    ]


def _ends(info: Any, path: list[str]) -> Iterator[Any]:
    """The types that the value at the end of the path may be of."""
    if isinstance(info, msgspec.inspect.Metadata):
        yield from _ends(info.type, path)
    elif isinstance(info, msgspec.inspect.UnionType):
        for one in info.types:
            yield from _ends(one, path)
    elif not path:
        yield info
    elif isinstance(info, msgspec.inspect.StructType):
        for field in info.fields:
            if field.encode_name == path[0]:
                yield from _ends(field.type, path[1:])
