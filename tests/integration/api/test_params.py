"""Params as they were sent and as PostgreSQL gives them back: the limit holds for both."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from shardwheel.api.app import PREFIX
from shardwheel.posting import PARAMS_LIMIT_BYTES
from tests.integration.api.rig import DAG, Rig, token

pytestmark = pytest.mark.servers


def send(api: Rig, method: str, path: str, content: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {token('stretched')}"}
    return api.client.request(method, PREFIX + path, content=content, headers=headers)


def numbers(count: int) -> str:
    return f'{{"a": [{",".join(["1e308"] * count)}]}}'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/jobs", '{"task": "work", "params": %s}'),
        ("POST", "/jobs:batch", '[{"task": "work", "params": %s}]'),
        ("PATCH", "/jobs/{id}", '{"params": %s}'),
        ("POST", "/jobs/{id}:trigger", '{"params": %s}'),
        ("POST", "/dead-letters/{id}:redrive", '{"params": %s}'),
        ("POST", "/dags", '{"tasks": [{"key": "a", "task": "work", "params": %s}]}'),
        ("POST", "/dags/{id}:trigger", '{"params": %s}'),
    ],
)
def test_what_grows_beyond_the_limit_is_refused(api: Rig, method: str, path: str, body: str) -> None:
    answer = send(api, method, api.path(path, "stretched"), body % numbers(PARAMS_LIMIT_BYTES // 300))
    assert answer.status_code == 413, answer.text[:300]
    assert answer.json()["error"]["field"].endswith("params")


def test_what_does_not_can_be_read_and_edited(api: Rig) -> None:
    made = send(api, "POST", "/jobs", f'{{"task": "work", "params": {numbers(200)}}}')
    assert made.status_code == 201, made.text[:300]
    path = f"/jobs/{made.json()['id']}"
    assert len(api.call("GET", path, tenant="stretched").content) < PARAMS_LIMIT_BYTES
    assert api.call("PATCH", path, {"name": "other"}, tenant="stretched").status_code == 200


def test_a_text_about_a_nul_is_none(api: Rig) -> None:
    params: dict[str, Any] = {"\\u0000": ["\\u0000", "C:\\users\\u0000"]}
    job = api.job("texts", params=params)
    assert api.call("GET", f"/jobs/{job['id']}", tenant="texts").json()["params"] == params
    dag = api.dag("texts", tasks=[DAG["tasks"][0] | {"params": params}])
    assert dag["tasks"][0]["params"] == params
