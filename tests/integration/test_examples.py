"""The examples on real servers: a web handler whose task is part of its transaction; and what a user starts
first, on a whole stack."""

from __future__ import annotations

import importlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import httpx
import psycopg
import pytest
from litestar.testing import TestClient

from shardwheel import Client
from shardwheel.compose import ports
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.store.jobs import list_jobs
from tests.integration.api.rig import SECRET, token
from tests.integration.loop.rig import Loop

pytestmark = pytest.mark.servers
EXAMPLES = Path(__file__).parents[2] / "examples"
# One worker for all of them.
HANDLERS = """
import etl_dag, handlers
from shardwheel import handler

@handler("welcome")
async def welcome(ctx, params):
    return f"welcome {params['to']}"
"""


@pytest.fixture
def web(migrated_database: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module("web_handler")
    monkeypatch.setattr(module, "DSN", migrated_database)
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute("CREATE TABLE users (email text UNIQUE)")
    return module


@pytest.fixture
def stack(
    tmp_path: Path, migrated_database: str, etcd_server: EtcdServer, own_kafka: Callable[[], KafkaServer]
) -> Iterator[Client]:
    """Every service, as `shardctl dev` starts them; a client of its API."""
    (tmp_path / "everything.py").write_text(HANDLERS)
    port = ports.choose()
    own = {"HANDLERS": "everything", "SECRET": SECRET, "HTTP_PORT": "0"}
    loop = Loop(
        tmp_path,
        migrated_database,
        etcd_server.address,
        own_kafka().bootstrap,
        f"examples-{uuid.uuid4().hex[:8]}",
        PYTHONPATH=os.pathsep.join([str(EXAMPLES), str(tmp_path)]),
        **{f"SHARDWHEEL_{name}": value for name, value in own.items()},
    )
    try:
        loop.start_all()
        loop.start(f"api --http-port {port}", "api")
        loop.wait("the API serves", lambda: ports.accepts(port))
        with Client(f"http://127.0.0.1:{port}", token=token("default"), retry_s=60) as client:
            yield client
    finally:
        loop.close()


def sign_up(web: ModuleType, email: str) -> httpx.Response:
    with TestClient(web.app, raise_server_exceptions=False) as http:
        return http.post("/users", json={"email": email})


def test_a_user_and_their_welcome_are_stored_together(migrated_database: str, web: ModuleType) -> None:
    answers = [sign_up(web, "a@b.c") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 500]
    with psycopg.connect(migrated_database) as conn:
        (job,) = list_jobs(conn, "default", task="welcome")
    assert job.params == {"to": "a@b.c"} and answers[0].json()["run"]


def test_the_examples_on_a_whole_stack(
    stack: Client, web: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    welcomed = stack.wait(sign_up(web, "a@b.c").json()["run"], timeout=120)
    assert welcomed.output == "welcome a@b.c"
    importlib.import_module("quick_start").main(stack)
    assert "sent: succeeded after 1 attempt" in capsys.readouterr().out
    importlib.import_module("etl_dag").main(stack)
    shown = capsys.readouterr().out
    assert shown.startswith("succeeded {") and "'files': 3" in shown and "'bytes': 24" in shown
