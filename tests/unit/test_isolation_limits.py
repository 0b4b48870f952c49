"""Limits of isolated handlers: defaults, and what is out of range refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.errors import UsageError
from shardwheel.handler import Registry, handler
from shardwheel.isolation import RANGES, Limits, limits_of


def test_what_is_not_given_has_a_default() -> None:
    assert limits_of(True, {"cpu_s": 5, "memory_mb": None}) == Limits(cpu_s=5)
    assert limits_of(False, {"cpu_s": None}) is None


def test_the_ends_of_the_ranges_are_allowed_and_the_defaults_within() -> None:
    for name, (least, most, _) in RANGES.items():
        assert limits_of(True, {name: least}) and limits_of(True, {name: most})
        assert least <= getattr(Limits(), name) <= most


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, least - 1) for name, (least, _, _) in RANGES.items()),
        *((name, most + 1) for name, (_, most, _) in RANGES.items()),
        ("cpu_s", 1.5),
        ("cpu_s", True),
        ("memory_mb", "64"),
        ("network", 1),
    ],
)
def test_out_of_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{field}: ") as caught:
        handler("a", isolated=True, registry=Registry(), **{field: value})
    assert caught.value.field == field


def test_limits_without_isolation_are_refused() -> None:
    with pytest.raises(UsageError, match="say isolated=True") as caught:
        handler("a", open_files=20, registry=Registry())
    assert caught.value.field == "open_files"


def test_the_handler_keeps_its_limits() -> None:
    registry = Registry()
    handler("a", isolated=True, cpu_s=7, network=True, registry=registry)(lambda ctx, params: None)
    known = registry.get("a")
    assert known is not None and known.limits == Limits(cpu_s=7, network=True)
