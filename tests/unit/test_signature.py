"""What a receiver may rely on: the signature is of this secret, this body and this time, and grows old."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from shardwheel.signature import is_signed, sign

AT_S = 1_795_003_200
BODY = b'{"state": "succeeded"}'


def test_the_header_is_what_the_page_says() -> None:
    expected = hmac.new(b"secret", b"1795003200." + BODY, hashlib.sha256).hexdigest()
    assert sign("secret", BODY, AT_S) == f"t=1795003200,v1={expected}"


def test_a_receiver_accepts_it_while_it_is_fresh() -> None:
    header = sign("secret", BODY, AT_S)
    assert is_signed("secret", BODY, header, now_s=AT_S + 299.9)
    assert is_signed("secret", BODY, header.replace(",", ", v0=old, "), now_s=AT_S - 299.9)
    assert not is_signed("secret", BODY, header, now_s=AT_S + 301)
    assert not is_signed("secret", BODY, header, now_s=AT_S - 301)


@pytest.mark.parametrize(
    "header",
    ["", "t=1795003200", "v1=ab", "t=,v1=", "t=x,v1=ab", "t=1795003200,v1=é", f"t={'9' * 40},v1=ab", "=,=,="],
)
def test_nothing_else_passes(header: str) -> None:
    assert not is_signed("secret", BODY, header, now_s=AT_S)


def test_another_secret_body_or_time_does_not_pass() -> None:
    header = sign("secret", BODY, AT_S)
    assert not is_signed("other", BODY, header, now_s=AT_S)
    assert not is_signed("secret", BODY + b" ", header, now_s=AT_S)
    assert not is_signed("secret", BODY, header.replace("t=1795003200", "t=1795003201"), now_s=AT_S)
