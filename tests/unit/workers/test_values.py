"""What handlers hand over: whatever can't be stored fails by itself, or is made fit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shardwheel.errors import UsageError
from shardwheel.workers.values import encode_json, require_storable, storable_text

LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value", [None, {"a": [1, "ü", 2.5]}, r"\u0000", "\\\\u0000", "a" * 98, msgspec.Raw(b"[1]")]
)
def test_json_that_can_be_stored(value: Any) -> None:
    assert encode_json("output", value, 100)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("\0", "NUL"),
        ({"a\0": 1}, "NUL"),
        ("\\\0", "NUL"),
        (object(), "can't be written as JSON"),
        ("\ud800", "can't be written as JSON"),
        (LOOP, "can't be written as JSON"),
        (msgspec.Raw(b"{"), "can't be written as JSON"),
        ([msgspec.Raw(rb'"\ud800"')], "can't be written as JSON"),
        ({"a": msgspec.Raw(b'"\xff"')}, "can't be written as JSON"),
        (msgspec.Raw(rb'"\u0000"'), "NUL"),
        ("a" * 99, "it has 101 bytes; at most 100"),
    ],
)
def test_what_can_not_be_stored_is_refused_by_name(value: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        encode_json("output", value, 100)
    assert caught.value.field == "output"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_it_is_no_deeper_than_whoever_reads_it_can_take() -> None:
    """Were it, the results' letters and the API's lists would end at it, whoever's they are."""
    assert encode_json("output", nested(100), 1_000)
    assert encode_json("output", ["["] * 200 + [{}] * 50, 10_000)
    for levels in (101, 900):
        with pytest.raises(UsageError, match="deeper than 100 levels"):
            encode_json("output", nested(levels), 10_000)
    with pytest.raises(UsageError, match="deeper than 100 levels"):
        require_storable("checkpoint", b"[" * 5_000 + b"]" * 5_000, 65_536)


def test_texts_are_made_fit() -> None:
    assert storable_text("a\0b\ud800c", 100) == "ab?c"
    assert storable_text("abcdef", 4) == "abc…"
