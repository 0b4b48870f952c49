"""Secrets: found by tenant and name, put into params, blotted out of what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shardwheel.errors import UsageError
from shardwheel.workers.secrets import (
    BLOT,
    EnvironmentSecrets,
    FileSecrets,
    SecretError,
    blotted,
    blotted_json,
    provider_of,
    resolve,
)

KNOWN = {"db": "hunter22", "smtp.password": 'a"b\\c\nd'}


def test_references_are_replaced_wherever_they_are() -> None:
    params = {"db": {"$secret": "db"}, "list": [1, {"x": {"$secret": "smtp.password"}}], "plain": "db"}
    resolved, found = resolve(params, KNOWN.get)
    assert resolved == {"db": "hunter22", "list": [1, {"x": KNOWN["smtp.password"]}], "plain": "db"}
    assert found == ("hunter22", KNOWN["smtp.password"])
    assert params["db"] == {"$secret": "db"}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"a": [{"$secret": "gone"}]}, r"params\.a\[0\]: there is no secret 'gone' for this tenant"),
        ({"a": {"$secret": "db", "more": 1}}, r"params\.a: a reference is"),
        ({"$secret": 7}, "params: a reference is"),
        ({"$secret": "../other/db"}, "params: a reference is"),
        ({"$secret": ""}, "params: a reference is"),
    ],
)
def test_a_reference_that_leads_nowhere_names_its_place(params: Any, message: str) -> None:
    with pytest.raises(SecretError, match=message):
        resolve(params, KNOWN.get)


def test_the_environment_keeps_tenants_apart() -> None:
    secrets = EnvironmentSecrets(environ={"SECRET_acme__smtp_password": "x", "SECRET_a__b__c": "y"})
    assert secrets("acme", "smtp.password") == secrets("acme", "smtp-password") == "x"
    assert secrets("rival", "smtp.password") is None
    assert secrets("ACME", "smtp.password") is None
    assert secrets("a__b", "c") is None  # Where a tenant's name ends is never in doubt.


def test_files_keep_tenants_apart_and_are_read_anew(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "db").write_text("first\n")
    secrets = FileSecrets(tmp_path)
    assert secrets("acme", "db") == "first"
    (folder / "db").write_text("second")
    assert secrets("acme", "db") == "second"
    assert secrets("rival", "db") is None
    assert secrets("..", "db") is None
    assert secrets("acme", "other") is None
    (folder / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretError, match="'binary' can't be read"):
        secrets("acme", "binary")


def test_settings_choose_the_provider(tmp_path: Path) -> None:
    assert isinstance(provider_of("environment", prefix="P_", folder=""), EnvironmentSecrets)
    assert isinstance(provider_of("file", prefix="", folder=str(tmp_path)), FileSecrets)
    assert provider_of("os.path:join", prefix="", folder="")("a", "b") == "a/b"
    for kind, field in (
        ("file", "secret_folder"),
        ("vault", "secret_provider"),
        ("os:no", "secret_provider"),
    ):
        with pytest.raises(UsageError) as caught:
            provider_of(kind, prefix="", folder="")
        assert caught.value.field == field


def test_secrets_are_blotted_out_of_texts_and_of_json() -> None:
    assert blotted(("hunter22", "1"), "login hunter22:1 failed") == "login [secret]:1 failed"
    secret = KNOWN["smtp.password"]
    assert blotted_json((secret,), b'{"x":"a\\"b\\\\c\\nd","y":1}') == b'{"x":"[secret]","y":1}'
    assert blotted_json((), b'"x"') == b'"x"'


@pytest.mark.parametrize("secret", ["BEGIN\nkey\tü\\\nEND", "it's", 'say "it\'s"', "\x7f\u2028abc"])
@pytest.mark.parametrize(
    "write",
    [
        lambda secret: f"no { ({'key': secret})!r}",
        lambda secret: repr(f"'key' is \"{secret}\""),
        ascii,
        json.dumps,
        lambda secret: json.dumps(secret, ensure_ascii=False),
        lambda secret: msgspec.json.encode([secret]).decode(),
    ],
)
def test_secrets_are_blotted_out_however_they_are_escaped(secret: str, write: Callable[[str], str]) -> None:
    blank = write("hunter22").replace("hunter22", BLOT)
    quotes = str.maketrans("", "", "\"'\\")  # Which quotes are around it depends on the secret.
    assert blotted((secret,), write(secret)).translate(quotes) == blank.translate(quotes)
    data = msgspec.json.encode(write(secret))
    assert msgspec.json.decode(blotted_json((secret,), data)).translate(quotes) == blank.translate(quotes)


def test_of_two_secrets_the_longer_one_goes_first() -> None:
    assert blotted(("abcd", "abcdefgh"), "abcdefgh abcd") == "[secret] [secret]"
