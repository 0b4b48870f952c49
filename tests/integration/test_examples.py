"""The example that needs PostgreSQL: a web handler whose task is part of its transaction."""

from __future__ import annotations

import importlib
from pathlib import Path

import psycopg
import pytest
from litestar.testing import TestClient

from shardwheel.store.jobs import list_jobs

pytestmark = pytest.mark.servers
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_user_and_their_welcome_are_stored_together(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    web = importlib.import_module("web_handler")
    monkeypatch.setattr(web, "DSN", migrated_database)
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute("CREATE TABLE users (email text UNIQUE)")
        with TestClient(web.app, raise_server_exceptions=False) as http:
            answers = [http.post("/users", json={"email": "a@b.c"}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 500]
        (job,) = list_jobs(conn, "default", task="welcome")
        assert job.params == {"to": "a@b.c"} and answers[0].json()["run"]
