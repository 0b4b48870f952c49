"""What msgspec says of a value that does not fit, in our words: the field, the problem and the remedy. Pure.

Its own message names the first two, in the words of a type checker; a caller wants to know what to send.
"""

from __future__ import annotations

import re
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
        problem = "is missing" if found[1] == "missing required" else "there is no such field"
        return Misfit(f"{path}.{found[2]}".lstrip("."), problem, "see /api/v1/openapi.json")
    field = path.split("[")[0] or "body"
    if found := _UNKNOWN.fullmatch(said):
        choices = ", ".join(_choices(msgspec.inspect.type_info(kind), field.split(".")))
        return Misfit(field, f"{found[1]:.80} is unknown", f"choose one of {choices}")
    if found := _EXPECTED.fullmatch(said):
        expected, limit, got = found.groups()
        where = " (each item of it)" if "[" in path else ""
        problem = "is out of range" if got is None else f"is {_words(got)}"
        return Misfit(field, problem, f"give {_words(expected)}{limit}{where}")
    return Misfit(field, f"{said[0].lower()}{said[1:]}", "see /api/v1/openapi.json")


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(one, one) for one in types.split(" | "))


def _choices(info: Any, path: list[str]) -> list[str]:
    """What a Literal at the end of the path lets pass."""
    if isinstance(info, msgspec.inspect.Metadata):
        return _choices(info.type, path)
    if isinstance(info, msgspec.inspect.UnionType):
        return [choice for one in info.types for choice in _choices(one, path)]
    if isinstance(info, msgspec.inspect.StructType) and path:
        of_name = {field.encode_name: field.type for field in info.fields}
        return _choices(of_name[path[0]], path[1:]) if path[0] in of_name else []
    return [str(value) for value in info.values] if isinstance(info, msgspec.inspect.LiteralType) else []
