"""What looks like a credential in plain text, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.credentials import credential_in
from shardwheel.errors import UsageError
from shardwheel.posting import parse_posting


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"password": "hunter2"}, "params.password"),
        ({"smtp": {"API-Key": "k"}}, "params.smtp.API-Key"),
        ({"list": [1, {"client_secret": "x"}]}, "params.list[1].client_secret"),
        ({"note": "-----BEGIN RSA PRIVATE KEY-----\n…"}, "params.note"),
        ({"note": "AKIAIOSFODNN7EXAMPLE"}, "params.note"),
        ({"dsn": "postgresql://me:hunter2@db/x"}, "params.dsn"),
    ],
)
def test_a_credential_is_found_where_it_stands(params: dict[str, Any], where: str) -> None:
    assert credential_in(params) == where
    with pytest.raises(UsageError, match=r"\$secret") as refused:
        parse_posting({"task": "t", "params": params})
    assert refused.value.field == "params"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"password": {"$secret": "smtp"}},
        {"password": ""},
        {"password": None},
        {"password_policy": "strict", "token_count": 7, "secretary": "Ann"},
        {"url": "https://example.org/a:b@c", "mail": "a@b.c"},
    ],
)
def test_what_is_none(params: dict[str, Any]) -> None:
    assert credential_in(params) is None
