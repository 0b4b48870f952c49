"""How deep a value is nested: counted without going down into it."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.errors import UsageError
from shardwheel.nesting import MOST_LEVELS, is_deeper
from shardwheel.posting import check_params


def nested(levels: int) -> Any:
    """So many objects and lists, in turn; an object outside."""
    value: Any = 1
    for level in range(levels - 1, -1, -1):
        value = [value, 7] if level % 2 else {"a": value, "b": {}}
    return value


@pytest.mark.parametrize("value", [1, "text", None, [], {}, [[], {}], {"a": [1, {"b": None}]}])
def test_what_is_usual_is_not_deep(value: Any) -> None:
    assert not is_deeper(value, 3)


def test_the_limit_is_exact() -> None:
    assert not is_deeper(nested(MOST_LEVELS))
    assert is_deeper(nested(MOST_LEVELS + 1))
    assert is_deeper([], 0) and not is_deeper(7, 0)


def test_what_would_overflow_a_stack_is_only_deep() -> None:
    assert is_deeper(nested(100_000))


def test_params_are_held_to_it() -> None:
    check_params(nested(MOST_LEVELS))
    with pytest.raises(UsageError, match="100 levels; make them flatter") as refused:
        check_params(nested(MOST_LEVELS + 1))
    assert refused.value.field == "params"
