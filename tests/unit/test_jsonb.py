"""What PostgreSQL makes of JSON: held to PostgreSQL itself in tests/integration/api/test_params.py."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from shardwheel.jsonb import bytes_when_read, has_nul


@pytest.mark.parametrize(
    ("value", "is_there"),
    [
        ("\0", True),
        ("\\\0", True),
        ("\\\\\0", True),
        ("\\u0000", False),
        ("a\\\\u0000", False),
        ("u0000", False),
    ],
)
def test_a_nul_is_told_from_a_text_about_one(value: str, is_there: bool) -> None:
    assert has_nul(msgspec.json.encode({"a": value})) is is_there
    assert has_nul(msgspec.json.encode({value: 1})) is is_there


@pytest.mark.parametrize(
    "value", [1e308, -1e308, 1.5e300, 5e-324, 1.7976931348623157e308, 1e16, 1.5e-7, 1e22], ids=str
)
def test_a_number_is_measured_as_it_is_written_out(value: float) -> None:
    params: dict[str, Any] = {"a": [value, {"b": (value,)}]}
    said = bytes_when_read(params, msgspec.json.encode(params))
    full = len(format(Decimal(repr(value)), "f"))
    # How an exponent is spelled differs by a sign and a zero.
    assert abs(said - (len(msgspec.json.encode({"a": [0, {"b": [0]}]})) - 2 + 2 * full)) <= 4


def test_what_has_no_such_number_is_as_large_as_it_is_sent() -> None:
    for params in ({"a": "1e308"}, {"1e308": 1}, {"a": [1.5, 0.1, 2**63, None, True]}, {}):
        encoded = msgspec.json.encode(params)
        assert bytes_when_read(params, encoded) == len(encoded)
