"""The ways in that everybody tries first, over HTTP and each by its name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import httpx
import pytest

from shardwheel.api.app import PREFIX
from shardwheel.api.remembered import KEPT_S
from shardwheel.tokens import key_name
from tests.integration.api.rig import SECRET, Rig, served

pytestmark = pytest.mark.servers
GOOD: dict[str, Any] = {"tenant": "acme", "role": "admin", "iss": "shardwheel", "aud": "shardwheel"}


def part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def signed(head: dict[str, Any], claims: dict[str, Any], key: str = SECRET, digest: str = "sha256") -> str:
    said = f"{part({'typ': 'JWT'} | head)}.{part(claims)}"
    signature = hmac.new(key.encode(), said.encode(), getattr(hashlib, digest)).digest()
    return f"{said}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def ask(api: Rig, token: str) -> httpx.Response:
    return api.client.get(f"{PREFIX}/jobs", headers={"authorization": f"Bearer {token}"})


def fresh(**other: Any) -> dict[str, Any]:
    claims = GOOD | {"exp": int(time.time()) + 60} | other
    return {name: value for name, value in claims.items() if value is not None}


HS = {"alg": "HS256", "kid": key_name(SECRET)}


def test_a_good_token_passes(api: Rig) -> None:
    assert ask(api, signed(HS, fresh())).status_code == 200


def refused(api: Rig, token: str) -> None:
    answer = ask(api, token)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


def test_alg_none(api: Rig) -> None:
    for alg in ("none", "None", "NONE"):
        refused(api, f"{part(HS | {'alg': alg})}.{part(fresh())}.")


def test_rs_hs_confusion(api: Rig) -> None:
    for alg in ("RS256", "ES256", "HS384", "HS512"):
        refused(api, signed(HS | {"alg": alg}, fresh()))


def test_expired(api: Rig) -> None:
    refused(api, signed(HS, fresh(exp=int(time.time()) - 60)))


def test_missing_exp(api: Rig) -> None:
    refused(api, signed(HS, fresh(exp=None)))


def test_missing_iss(api: Rig) -> None:
    refused(api, signed(HS, fresh(iss=None)))


def test_wrong_aud(api: Rig) -> None:
    refused(api, signed(HS, fresh(aud="another")))
    refused(api, signed(HS, fresh(aud=None)))


def test_unknown_kid(api: Rig) -> None:
    refused(api, signed(HS | {"kid": "nobody's"}, fresh()))
    refused(api, signed(HS | {"kid": "../../etc/passwd"}, fresh()))


def test_wrong_secret(api: Rig) -> None:
    refused(api, signed(HS, fresh(), key="x" * 40))


@pytest.mark.parametrize(
    "cron",
    [
        "* " * 5_000,
        ",".join(["*/1"] * 5_000) + " * * * *",
        "0-59/1," * 200 + "0 * * * *",
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "*/0 * * * *",
        "0-999999999999 * * * *",
        "99999999999999999999 * * * *",
        "R * * * *",
        "0 0 L L L",
        "* * * * * * * * *",
        "@every_nanosecond",
        "\u0660 * * * *",
    ],
    ids=lambda cron: cron[:24],
)
def test_cron_bombs(api: Rig, cron: str) -> None:
    for path, body in (
        ("/jobs", {"task": "work", "cron": cron}),
        ("/dags", {"tasks": [{"key": "a", "task": "work"}], "cron": cron}),
    ):
        answer = api.call("POST", path, body, tenant="bombs")
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, "cron"), answer.text


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://example.org@127.0.0.1/",
        "https://user:word@example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "https://example.org:22/\r\nx: y",
        "https:///",
        "//example.org/",
    ],
)
def test_ssrf_forms_of_callback_url(api: Rig, url: str) -> None:
    answer = api.call("POST", "/jobs", {"task": "work", "callback_url": url}, tenant="ssrf")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "callback_url"), answer.text
    job = api.job("ssrf")
    assert api.call("PATCH", f"/jobs/{job['id']}", {"callback_url": url}, tenant="ssrf").status_code == 400


def test_a_change_shows_at_once_and_to_nobody_else(api: Rig) -> None:
    """The cache of single jobs: read, change, read; and the same id for another tenant."""
    job = api.job("cached")
    path = f"/jobs/{job['id']}"
    for method, verb, body, state in (
        ("POST", ":pause", {}, "paused"),
        ("POST", ":resume", {}, "active"),
        ("PATCH", "", {"name": "other"}, "active"),
        ("DELETE", "", None, "deleted"),
    ):
        assert api.call("GET", path, tenant="cached").status_code == 200
        assert api.call("GET", path, tenant="thief").status_code == 404
        assert api.call(method, path + verb, body, tenant="cached").json()["state"] == state
        assert api.call("GET", path, tenant="cached").json()["state"] == state


def test_a_change_by_another_process_shows_within_a_second(api: Rig) -> None:
    """Two API processes on one database: the other one's cache is half a second old at most."""
    with served(api.dsn) as other:
        job = api.job("processes")
        path = f"/jobs/{job['id']}"
        assert other.call("GET", path, tenant="processes").json()["state"] == "active"
        assert api.call("POST", f"{path}:pause", tenant="processes").status_code == 200
        asked = other.call("GET", path, tenant="processes").json()["state"]
        give_up_at_s = time.monotonic() + 60
        while asked != "paused":
            assert time.monotonic() < give_up_at_s
            asked = other.call("GET", path, tenant="processes").json()["state"]
        assert KEPT_S <= 1
