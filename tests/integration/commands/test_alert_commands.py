"""`alerts list`, `alerts silence`, `explain`, `job update`, `next` and `backfill`, as people call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
import pytest
from typer.testing import CliRunner

from shardwheel.alerts.rules import Figure, rules
from shardwheel.cli import app
from shardwheel.errors import NotFoundError, UsageError
from shardwheel.store.alerts import store_look, take_watch

pytestmark = pytest.mark.servers

Shardctl = Callable[..., Any]


@pytest.fixture
def shardctl(with_api: dict[str, str]) -> Shardctl:
    """Runs a command; its JSON, or the error that the console script would turn into an exit code."""

    def run(*arguments: str) -> Any:
        answer = CliRunner().invoke(app, [*arguments, "-o", "json"], env=with_api)
        if answer.exception is not None:
            raise answer.exception
        return msgspec.json.decode(answer.stdout)

    return run


def test_alerts_are_listed_and_silenced(shardctl: Shardctl, migrated_database: str) -> None:
    assert shardctl("alerts", "list") == []
    with psycopg.connect(migrated_database) as conn:
        take_watch(conn, "a", 60)
        store_look(conn, "a", [rules()["dead_letters"].finding(Figure("dead_letters", 600))], [])
    (alert,) = shardctl("alerts", "list")
    assert (alert["rule"], alert["severity"], alert["silenced_until"]) == ("dead_letters", "critical", None)
    silenced = shardctl("alerts", "silence", alert["id"], "--for", "2h")
    assert silenced["silenced_until"] > alert["opened_at"]
    assert shardctl("alerts", "list", "--resolved") == []
    assert [one["id"] for one in shardctl("alerts", "list", "--all")] == [alert["id"]]
    with pytest.raises(NotFoundError):
        shardctl("alerts", "silence", "00000000-0000-0000-0000-000000000000")


def test_a_job_is_explained_changed_and_filled(shardctl: Shardctl) -> None:
    job = shardctl("job", "create", "work", "--every", "1h")["id"]
    explained = shardctl("explain", job)
    assert list(explained) == ["id", "kind", "state", "reason", "sentence", "remedy", "facts"]
    assert (explained["kind"], explained["reason"]) == ("job", "waits")
    first, second = shardctl("job", "next", job, "-n", "2")
    assert first["scheduled_at"] == first["fires_at"] < second["scheduled_at"]
    assert first["scheduled_at"] in explained["sentence"]
    assert shardctl("job", "update", job, "--set", "timeout_s=7")["timeout_s"] == 7
    with pytest.raises(UsageError, match="no time in that span"):
        shardctl("job", "backfill", job, "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T00:00:01Z")
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T05:00:00Z")
    assert shardctl("job", "backfill", job, *span) == {"id": job, "job_id": job, "count": 5}
    shardctl("job", "pause", job)
    assert shardctl("job", "next", job) == []
    assert shardctl("explain", job)["reason"] == "paused"


def test_an_execution_is_explained_and_what_is_not_there_is_not_found(shardctl: Shardctl) -> None:
    job = shardctl("job", "create", "work", "--every", "1h")["id"]
    execution = shardctl("job", "trigger", job)["execution_id"]
    explained = shardctl("explain", execution)
    assert (explained["kind"], explained["state"]) == ("execution", "queued")
    assert shardctl("explain", job)["facts"]["latest_execution"]["id"] == execution
    with pytest.raises(NotFoundError):
        shardctl("explain", "00000000-0000-0000-0000-000000000000")
    shardctl("job", "delete", job, "--yes")
    with pytest.raises(NotFoundError):
        shardctl("job", "update", job, "--set", "timeout_s=7")
    assert shardctl("explain", job)["reason"] == "deleted"
