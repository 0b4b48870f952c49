"""Messages: what is encoded is decoded; later versions are readable; rubbish is refused."""

from __future__ import annotations

import msgspec
import pytest

from shardwheel.errors import UsageError
from shardwheel.wire import (
    FORMAT_VERSION,
    Fire,
    FireKind,
    Outcome,
    Result,
    decode_fire,
    decode_result,
    encode_fire,
    encode_result,
)

FIELDS = (
    FORMAT_VERSION,
    FireKind.FIRE,
    b"e" * 16,
    b"j" * 16,
    255,
    -(2**63),
    1_790_000_000_000,
    1_790_000_000_250,
    1,
)


def test_a_tuple_of_the_hot_path_reads_back_as_a_fire() -> None:
    assert decode_fire(encode_fire(FIELDS)) == Fire(*FIELDS)


def test_fields_of_a_later_version_are_ignored() -> None:
    later = (*msgspec.structs.astuple(Fire(*FIELDS)), "something new")
    assert decode_fire(encode_fire(later)) == Fire(*FIELDS)


def test_a_result_reads_back() -> None:
    result = Result(
        FORMAT_VERSION,
        b"e" * 16,
        b"j" * 16,
        7,
        2,
        b"t" * 16,
        Outcome.FAILED,
        1,
        2,
        "w-1",
        "ValueError",
        "no",
        "…",
    )
    assert decode_result(encode_result(result)) == result


@pytest.mark.parametrize("value", [b"", b"\xc1", encode_fire((1, 2)), encode_fire("text")])
def test_rubbish_is_refused(value: bytes) -> None:
    with pytest.raises(UsageError):
        decode_fire(value)
