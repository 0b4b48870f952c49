"""Who is believed how long: remembered tokens, changed keys."""

from __future__ import annotations

import time

import pytest

from shardwheel.api.auth import Gatekeeper
from shardwheel.errors import BadTokenError
from shardwheel.tokens import UnknownKeyError, Verifier, make_token, secret_keys

FIRST, SECOND = "f" * 40, "s" * 40
VERIFIER = Verifier("HS256", "shardwheel", "shardwheel")


def header(secret: str, **claims: object) -> str:
    known = {"tenant": "acme", "role": "viewer", "iss": "shardwheel", "aud": "shardwheel"}
    return f"Bearer {make_token(secret, known | {'exp': time.time() + 60} | claims)}"


def test_a_remembered_token_still_runs_out() -> None:
    now_s = time.time()
    gatekeeper = Gatekeeper(VERIFIER, secret_keys([FIRST]), now_s=lambda: now_s)
    short = header(FIRST, exp=time.time() - 1)  # within the leeway
    gatekeeper.caller(short)
    long = header(FIRST)
    assert gatekeeper.caller(long) is gatekeeper.caller(long)
    now_s += 61
    # It is checked again, and not by our clock but by the verifier's own: still good there.
    assert gatekeeper.caller(long) is not gatekeeper.caller(long)


def test_new_keys_end_what_was_remembered_and_an_unknown_one_asks_for_them() -> None:
    wanted = []
    gatekeeper = Gatekeeper(
        VERIFIER, secret_keys([FIRST]), now_s=time.time, want_keys=lambda: wanted.append(1)
    )
    old, new = header(FIRST), header(SECOND)
    gatekeeper.caller(old)
    with pytest.raises(UnknownKeyError):
        gatekeeper.caller(new)
    assert wanted == [1]
    gatekeeper.replace_keys(secret_keys([SECOND]))
    assert gatekeeper.caller(new).tenant == "acme"
    with pytest.raises(UnknownKeyError):
        gatekeeper.caller(old)


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Basic YTpi", "bearer  "])
def test_without_a_token(authorization: str | None) -> None:
    gatekeeper = Gatekeeper(VERIFIER, secret_keys([FIRST]), now_s=time.time)
    with pytest.raises(BadTokenError):
        gatekeeper.caller(authorization)
