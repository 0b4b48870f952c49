"""What looks like a credential in plain text, and what does not."""

from __future__ import annotations

import tracemalloc
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
        ({"smtp_password": "hunter2"}, "params.smtp_password"),
        ({"note": "use github_pat_" + "1a" * 20}, "params.note"),
        ({"note": "glpat-" + "x" * 20}, "params.note"),
        ({"note": "sk_live_" + "4e" * 12}, "params.note"),
        ({"note": "AIza" + "Sy" * 17 + "x"}, "params.note"),
        ({"AWS_SECRET_ACCESS_KEY": "k"}, "params.AWS_SECRET_ACCESS_KEY"),
        ({"stripeApiKey": "k"}, "params.stripeApiKey"),
        ({"headers": {"Authorization": "Basic YTpi"}}, "params.headers.Authorization"),
        ({"curl": "-H 'Authorization: Bearer eyJhbGciOiJI.eyJzdWIiOiIx.c2ln'"}, "params.curl"),
        ({"smtp": {"$secret": {"password": "hunter2"}}}, "params.smtp.$secret.password"),
        ({"key": {"$secret": "-----BEGIN RSA PRIVATE KEY-----"}}, "params.key.$secret"),
        ({"dsn": {"$secret": ["postgresql://me:hunter2@db/x"]}}, "params.dsn.$secret[0]"),
        ({"a": [[0, {"b": [{"passwd": "x"}]}]]}, "params.a[0][1].b[0].passwd"),
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
        {"payment_authorization": "A-1", "page_token": "x", "monkey": "y", "is_secret": True},
        {"url": "https://example.org/a:b@c", "mail": "a@b.c"},
    ],
)
def test_what_is_none(params: dict[str, Any]) -> None:
    assert credential_in(params) is None


@pytest.mark.parametrize("bait", ["-eyJ", "eyJ.", "eyJaaaaaaaa.eyJ/", "a.", "a://", "-----BEGIN "])
def test_the_search_costs_no_more_than_what_is_searched(bait: str) -> None:
    """Were a match tried anew over all that follows, this would not end before tomorrow."""
    assert credential_in({"a": bait * (4_000_000 // len(bait))}) is None


def test_places_are_spelled_out_only_once_found() -> None:
    """A long name over many small things: one copy of it for each would be 400 MB."""
    params: dict[str, dict[str, Any]] = {"x" * 20_000: {str(number): {} for number in range(20_000)}}
    tracemalloc.start()
    try:
        assert credential_in(params) is None
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 40_000_000


def test_a_long_place_is_told_in_short() -> None:
    with pytest.raises(UsageError) as refused:
        parse_posting({"task": "t", "params": {"x" * 60_000: {"password": "y"}}})
    assert len(str(refused.value)) < 500
