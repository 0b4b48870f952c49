"""What hostile or broken clients send: refused by name, never a 5xx, and never more read than the limit."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import httpx
import pytest

from shardwheel.api import limits, patience
from shardwheel.api.app import PREFIX
from shardwheel.api.limits import BATCH_LIMIT_BYTES, ONE_LIMIT_BYTES
from shardwheel.tokens import make_token
from tests.integration.api.rig import SECRET, Rig, token

pytestmark = pytest.mark.servers


def post(api: Rig, content: Any, path: str = "/jobs", **headers: str) -> httpx.Response:
    own = {"authorization": f"Bearer {token()}", "content-type": "application/json"}
    return api.client.post(PREFIX + path, content=content, headers=own | headers)


def params_of(size: int) -> dict[str, str]:
    return {"x": "y" * (size - len('{"x":""}'))}


def test_65536_bytes_of_params_pass(api: Rig) -> None:
    assert api.call("POST", "/jobs", {"task": "work", "params": params_of(65_536)}).status_code == 201


def test_65537_bytes_of_params_do_not(api: Rig) -> None:
    answer = api.call("POST", "/jobs", {"task": "work", "params": params_of(65_537)})
    assert (answer.status_code, answer.json()["error"]["field"]) == (413, "params")
    job = api.job()
    for path, body in ((f"/jobs/{job['id']}", "PATCH"), (f"/jobs/{job['id']}:trigger", "POST")):
        assert api.call(body, path, {"params": params_of(65_537)}).status_code == 413


def test_a_body_over_its_limit_is_refused_while_it_streams(api: Rig) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 1024 * ONE_LIMIT_BYTES:
            sent += 65_536
            yield b" " * 65_536

    # It answers, or it has hung up on us already: all the same.
    with suppress(httpx.WriteError, httpx.RemoteProtocolError):
        assert post(api, endless()).status_code == 413
    assert sent < 1024 * ONE_LIMIT_BYTES


def test_an_announced_length_is_believed_before_anything_is_sent(api: Rig) -> None:
    head = (
        f"POST {PREFIX}/jobs:batch HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token()}\r\n"
        f"content-length: {BATCH_LIMIT_BYTES + 1}\r\n\r\n"
    )
    with plain_connection(api) as connection:
        connection.sendall(head.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_gzip_bomb_is_not_unpacked(api: Rig) -> None:
    bomb = gzip.compress(b'{"task": "' + b"a" * 10_000_000 + b'"}')
    answer = post(api, bomb, **{"content-encoding": "gzip"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "content-encoding")


@pytest.mark.parametrize(
    "content",
    [
        b'{"task": "work", "params": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}",
        b"[" * 10_000,
        b'{"task": "work", "timeout_s": NaN}',
        b'{"task": "work", "params": {"a": Infinity}}',
        b'{"task": "work", "params": {"a": 1e999}}',
        b'{"task": "work", "name": "\\ud800"}',
        b'{"task": "work", "params": {"\\udc00": 1}}',
        b'{"task": "a\\u0000b"}',
        b'{"task": "work", "params": {"a": "\\u0000"}}',
        b'{"task": "work", "tags": ["\\u0000"]}',
        b'{"task": "work", "idempotency_key": "\\u0000"}',
        b'{"task": "work", "name": "\xff"}',
        b'{"task": "work", "max_retries": 9223372036854775808}',
        b'{"task": "work", "every": 9223372036854775808}',
        b'{"task": "work", "cron": "* * * * *", "max_runs": 9223372036854775808}',
        b'{"task": "work", "timeout_s": 1e308}',
        b'{"task": "work", "params": {"password": "hunter2"}}',
        b'{"task": 7}',
        b'"work"',
        b"null",
        b"",
        b"{",
    ],
    ids=lambda content: content[:48].decode(errors="replace"),
)
def test_a_body_that_is_none(api: Rig, content: bytes) -> None:
    answer = post(api, content)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid")
    inside = post(api, b"[" + content + b"]", "/jobs:batch")
    assert inside.status_code == 400


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_params_as_deep_as_they_may_be_are_read_everywhere(api: Rig) -> None:
    job = api.job("deep", params=nested(100))
    run = api.call("POST", f"/jobs/{job['id']}:trigger", {"params": nested(100)}, tenant="deep")
    assert run.status_code == 202
    task = {"key": "a", "task": "work", "params": nested(100)}
    dag = api.call("POST", "/dags", {"tasks": [task]}, tenant="deep")
    assert dag.status_code == 201
    for path in (
        f"/jobs/{job['id']}",
        f"/jobs/{job['id']}?full=true",
        "/jobs",
        "/executions",
        f"/dags/{dag.json()['id']}",
        "/dags",
        "/audit",
    ):
        assert api.call("GET", path, tenant="deep").status_code == 200, path


@pytest.mark.parametrize("levels", [101, 103, 110, *range(890, 1_010, 3)])
def test_deeper_ones_are_refused_at_every_door(api: Rig, levels: int) -> None:
    """Also where Python's own stack is about to end: there is no depth at which something breaks."""
    params = "{" + '"a":{' * (levels - 1) + "}" * levels
    job, dag = f"/jobs/{_job_of(api)}", f"/dags/{_dag_of(api)}"
    for method, path, body in (
        ("POST", "/jobs", '{"task": "work", "params": %s}'),
        ("POST", "/jobs:batch", '[{"task": "work", "params": %s}]'),
        ("PATCH", job, '{"params": %s}'),
        ("POST", f"{job}:trigger", '{"params": %s}'),
        ("POST", "/dags", '{"tasks": [{"key": "a", "task": "work", "params": %s}]}'),
        ("PATCH", dag, '{"tasks": [{"key": "a", "task": "work", "params": %s}]}'),
        ("POST", f"{dag}:trigger", '{"params": %s}'),
    ):
        headers = {"authorization": f"Bearer {token('deeper')}"}
        answer = api.client.request(method, PREFIX + path, content=body % params, headers=headers)
        assert answer.status_code == 400, (method, path, answer.text[:300])
        assert "flatter" in answer.json()["error"]["message"]


@cache
def _job_of(api: Rig) -> str:
    return str(api.job("deeper")["id"])


@cache
def _dag_of(api: Rig) -> str:
    return str(api.dag("deeper")["id"])


def test_large_numbers_in_params_stay_what_they_are(api: Rig) -> None:
    params = {"a": 2**63, "b": -(2**63), "c": 2**53 + 1}
    assert api.job(params=params)["params"] == params


def test_a_batch_of_1001(api: Rig) -> None:
    answer = api.call("POST", "/jobs:batch", [{"task": "work"}] * 1_001, tenant="many")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "body")
    assert api.call("GET", "/jobs", tenant="many").json()["items"] == []
    wrong: list[Any] = [[], {}, [7]]
    for body in wrong:
        assert api.call("POST", "/jobs:batch", body).status_code == 400


HOSTILE = [
    "' OR '1'='1",
    "'; DROP TABLE shardwheel.jobs; --",
    "%' OR tenant_id <> '",
    "%(tenant_id)s",
    "\\",
    "%",
    "../../etc/passwd",
    "9" * 18,
    "9" * 19,
    "-1",
    "99999999999999.00000000-0000-0000-0000-000000000000",
    "999999999999999999.00000000-0000-0000-0000-000000000000",
    "\udcff",
    "\0",
    "x" * 201,
]
WORDS = [
    "cursor",
    "state",
    "task",
    "tag",
    "q",
    "from",
    "to",
    "reason",
    "origin",
    "class",
    "job_id",
    "actor",
    "action",
    "object_kind",
    "object_id",
    "limit",
]


@pytest.mark.parametrize(
    "path", ["/jobs", "/dags", "/executions", "/dead-letters", "/audit", "/tasks", "/alerts"]
)
@pytest.mark.parametrize("word", WORDS)
def test_injection_into_filters_and_cursors(api: Rig, path: str, word: str) -> None:
    api.letter("rival")
    api.dag("rival")
    for text in HOSTILE:
        raw = "".join(f"%{byte:02x}" for byte in text.encode(errors="surrogateescape"))
        answer = api.call("GET", f"{path}?{word}={raw}", tenant="hostile")
        assert answer.status_code in (200, 400), (text, answer.text)
        if answer.status_code == 200:
            assert answer.json()["items"] == []


@pytest.mark.parametrize(
    "query", ["sort=name", "limit=0", "limit=201", "limit=1&limit=2", "offset=10", "limit=x"]
)
def test_an_unknown_or_wrong_parameter_is_refused_by_name(api: Rig, query: str) -> None:
    answer = api.call("GET", f"/jobs?{query}")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, query.split("=")[0])


@pytest.mark.parametrize("text", ["1", "x" * 300, "%00", "' OR 1=1", "00000000-0000-0000-0000-00000000000g"])
def test_an_id_that_is_none(api: Rig, text: str) -> None:
    for path in ("/jobs", "/executions", "/dead-letters"):
        answer = api.call("GET", f"{path}/{text}")
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, "id")


@pytest.mark.parametrize(
    "path",
    ["/nope", "/jobs/a/b/c", "/jobs/00000000-0000-0000-0000-000000000000:explode", "/jobs/x/:pause", "/.."],
)
def test_a_path_that_is_none(api: Rig, path: str) -> None:
    answer = api.call("POST", path, {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_a_method_that_is_none(api: Rig) -> None:
    """OPTIONS too, which frameworks answer by themselves: nothing is served beside the table of rules."""
    for method in ("OPTIONS", "TRACE", "HEAD", "PUT", "PATCH"):
        answer = api.client.request(method, f"{PREFIX}/jobs")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST"), method
    assert api.client.request("OPTIONS", f"{PREFIX}/nope").status_code == 404


CREDENTIALS: dict[str, Any] = {"smtp": {"password": "hunter2"}}
IN_TASK = [{"key": "a", "task": "work", "params": CREDENTIALS}]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/jobs", {"task": "work", "params": CREDENTIALS}, "params"),
        ("POST", "/jobs:batch", [{"task": "work"}, {"task": "work", "params": CREDENTIALS}], "[1].params"),
        ("PATCH", "/jobs/{id}", {"params": CREDENTIALS}, "params"),
        ("POST", "/jobs/{id}:trigger", {"params": CREDENTIALS}, "params"),
        ("POST", "/dead-letters/{id}:redrive", {"params": CREDENTIALS}, "params"),
        ("POST", "/dags", {"tasks": IN_TASK}, "tasks[0].params"),
        ("PATCH", "/dags/{id}", {"tasks": IN_TASK}, "tasks[0].params"),
        ("POST", "/dags/{id}:trigger", {"params": CREDENTIALS}, "params"),
    ],
)
def test_credentials_are_refused_at_every_door(
    api: Rig, method: str, path: str, body: Any, field: str
) -> None:
    tenant = f"credentials {method} {path}"
    path = api.path(path, tenant)
    before = api.everything(tenant)
    error = api.call(method, path, body, tenant=tenant).json()["error"]
    assert (error["code"], error["field"]) == ("invalid", field)
    # With what to do instead, and without the credential itself.
    assert "$secret" in error["message"] and "hunter2" not in str(error)
    assert api.everything(tenant) == before


def test_a_token_that_ran_out(api: Rig) -> None:
    for exp_in_s, status in ((60, 200), (-60, 401)):
        claims = {"tenant": "acme", "role": "viewer", "iss": "shardwheel", "aud": "shardwheel"}
        made = make_token(SECRET, claims | {"exp": int(time.time()) + exp_in_s})
        answer = api.client.get(f"{PREFIX}/jobs", headers={"authorization": f"Bearer {made}"})
        assert answer.status_code == status


@contextmanager
def plain_connection(api: Rig) -> Iterator[socket.socket]:
    host, port = api.client.base_url.host, api.client.base_url.port
    assert port is not None
    with socket.create_connection((host, port), timeout=60) as connection:
        yield connection


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: "],
    ids=["nothing", "line", "header"],
)
def test_a_client_that_never_ends_its_head_is_hung_up_on(
    api: Rig, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HEAD_LIMIT_S", 0.05)
    with plain_connection(api) as connection:
        connection.sendall(said)
        assert connection.recv(1) == b""


def test_the_second_request_of_a_connection_has_no_more_time(
    api: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HEAD_LIMIT_S", 0.05)
    with plain_connection(api) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /hea")
        assert connection.recv(1) == b""


def test_an_endless_header(api: Rig) -> None:
    with plain_connection(api) as connection, suppress(ConnectionError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nx: " + b"y" * (2 * patience.HEAD_LIMIT_BYTES))
        assert connection.recv(1) == b""


def test_a_body_that_never_comes(api: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_LIMIT_S", 0.05)
    head = f"POST {PREFIX}/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token()}\r\n"
    with plain_connection(api) as connection:
        connection.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400")


def test_an_error_says_nothing_about_the_token(api: Rig) -> None:
    secretive = token()[:-4] + "AAAA"
    answer = api.client.get(f"{PREFIX}/jobs", headers={"authorization": f"Bearer {secretive}"})
    assert answer.status_code == 401 and secretive not in answer.text
    assert json.loads(answer.text)["error"]["code"] == "unauthenticated"


@pytest.mark.parametrize("number", ["256", "-1", "9" * 5_000, "\u0663", "1e1", "%00"])
def test_a_partition_that_is_none(api: Rig, number: str) -> None:
    answer = api.call("POST", f"/partitions/{number}:move", {"to": "x"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400 if number == "%00" else 404, "id")


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/tasks/%00:pause", {}, "name"),
        ("POST", "/dead-letters:discard", {"task": "\0"}, "task"),
        ("GET", "/alerts?cursor=99999999999999999-00000000-0000-0000-0000-000000000000", None, "cursor"),
    ],
)
def test_what_no_database_takes_is_refused_by_name(
    api: Rig, method: str, path: str, body: Any, field: str
) -> None:
    answer = api.call(method, path, body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)
    assert "PostgreSQL text" not in answer.text and "CONTEXT" not in answer.text


def test_a_slash_inside_of_a_name(api: Rig) -> None:
    api.job("slashes", task="reports/daily:all")
    for path in ("/tasks/reports%2Fdaily:all:pause", "/tasks/reports%2fdaily%3Aall:resume"):
        answer = api.call("POST", path, tenant="slashes")
        assert (answer.status_code, answer.json()["id"]) == (200, "reports/daily:all"), answer.text


def test_every_error_has_its_three_fields(api: Rig) -> None:
    for method, path in (("GET", "/nope"), ("PUT", "/jobs"), ("GET", "/jobs/x"), ("GET", f"/jobs/{token()}")):
        error = api.call(method, path).json()["error"]
        assert list(error)[:3] == ["code", "message", "field"]


def test_a_client_that_goes_away_is_no_error_of_ours(api: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    head = f"POST {PREFIX}/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token()}\r\n"
    with plain_connection(api) as connection:
        connection.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
    before = measured(api, "POST /jobs")
    give_up_at_s = time.monotonic() + 60
    while measured(api, "POST /jobs") == before:
        assert time.monotonic() < give_up_at_s
        with plain_connection(api) as connection:
            connection.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
    assert "a request failed" not in "".join(capfd.readouterr())


def measured(api: Rig, route: str) -> str:
    """How many requests of a route were answered, as the metrics say."""
    name = f'shardwheel_api_request_seconds_count{{route="{route}"}}'
    return next(line for line in api.client.get("/metrics").text.splitlines() if line.startswith(name))
