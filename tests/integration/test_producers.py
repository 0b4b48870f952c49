"""A login with nothing but the right to enqueue: in its own transaction, for its own tenant."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from shardwheel import Client
from shardwheel.errors import ForbiddenError, LimitedError, NotFoundError, TooLargeError, UsageError
from shardwheel.posting import parse_posting
from shardwheel.store.jobs import list_jobs
from shardwheel.store.producers import grant_producer, list_producers, revoke_producer

pytestmark = pytest.mark.servers
Connection = psycopg.Connection[Any]
ACME = Client(tenant="acme")
CALL = """SELECT job_id FROM shardwheel.enqueue(
    %(tenant)s, gen_random_uuid(), 7::smallint, %(job)s, 2, NULL, NULL)"""
JOB: dict[str, Any] = {
    "task": "welcome",
    "name": "",
    "params": {},
    "tags": [],
    "schedule": "{}",
    "anchor_ms": 1_800_000_000_000,
    "last_ms": 1_800_000_000_000,
    "jitter_ms": 0,
    "pool": "short",
    "priority": 2,
    "timeout_ms": 60_000,
    "max_retries": 3,
    "backoff": {"kind": "fixed", "base_s": 1, "factor": 1, "max_s": 1, "jitter": 0},
    "misfire": "skip",
    "misfire_grace_ms": 0,
    "catchup_window_ms": 0,
    "overlap": "allow",
}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.fixture
def operator(migrated_database: str) -> Iterator[Connection]:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        yield conn


@pytest.fixture
def login(operator: Connection) -> Iterator[str]:
    name = f"shop_{uuid.uuid4().hex[:8]}"
    operator.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'p'".encode())
    grant_producer(operator, name, "acme", ["welcome", "report"])
    yield name
    operator.execute(f"DROP OWNED BY {name}".encode())
    operator.execute(f"DROP ROLE {name}".encode())


@pytest.fixture
def shop(migrated_database: str, login: str) -> Iterator[Connection]:
    with psycopg.connect(make_conninfo(migrated_database, user=login, password="p")) as conn:
        yield conn


def tasks(operator: Connection, tenant: str = "acme") -> list[str]:
    return [job.task for job in list_jobs(operator, tenant)]


def test_it_commits_and_rolls_back_with_the_rest(shop: Connection, operator: Connection, login: str) -> None:
    ACME.enqueue("welcome", conn=shop)
    shop.rollback()
    assert tasks(operator) == []
    made = ACME.enqueue("welcome", {"x": 1}, conn=shop, idempotency_key="k")
    assert ACME.enqueue("welcome", {"x": 1}, conn=shop, idempotency_key="k") == made
    limited = ACME.create_job("report", every="1h", max_runs=3, conn=shop)
    shop.commit()
    assert tasks(operator) == ["welcome", "report"] and limited.max_runs == 3
    ((last_at, actor),) = operator.execute(
        "SELECT j.last_at - j.anchor_at, a.actor FROM shardwheel.jobs AS j"
        " JOIN shardwheel.audit AS a ON a.object_id = j.job_id::text WHERE j.task = 'report'"
    )
    assert (last_at.total_seconds() in (7200, 10800), actor) == (True, login)


def test_whatever_the_callers_connection_is_like(shop: Connection, operator: Connection) -> None:
    shop.row_factory = dict_row
    shop.cursor_factory = psycopg.ClientCursor
    with shop.pipeline():
        ACME.enqueue("welcome", conn=shop)
    shop.commit()
    shop.autocommit = True
    ACME.enqueue("welcome", conn=shop)
    with pytest.raises(UsageError, match="max_runs"):
        ACME.create_job("welcome", every="1h", max_runs=2, conn=shop)
    assert tasks(operator) == ["welcome", "welcome"]


def test_a_login_that_is_not_there_is_named_once(operator: Connection) -> None:
    with pytest.raises(NotFoundError, match=r"^login: there is no role nobody_at_all .* create it first$"):
        grant_producer(operator, "nobody_at_all", "acme", [])


def test_no_other_tenant_and_no_other_task(shop: Connection, operator: Connection, login: str) -> None:
    for client, task, field in ((Client(tenant="rival"), "welcome", "tenant"), (ACME, "steal", "task")):
        with pytest.raises(ForbiddenError) as refused:
            client.enqueue(task, conn=shop)
        assert refused.value.field == field
        shop.rollback()
    assert [one.login for one in list_producers(operator)] == [login]
    assert revoke_producer(operator, login, "acme") and not revoke_producer(operator, login, "acme")
    with pytest.raises(ForbiddenError, match="shardctl producer grant"):
        ACME.enqueue("welcome", conn=shop)


def test_no_table_can_be_read_or_written_and_nothing_else_called(
    shop: Connection, operator: Connection
) -> None:
    shop.autocommit = True
    named = operator.execute("SELECT relname FROM pg_class WHERE relnamespace = 'shardwheel'::regnamespace"
                             " AND relkind IN ('r', 'p')").fetchall()  # fmt: skip
    assert len(named) > 20
    statements = [f"{verb} shardwheel.{name}" for (name,) in named for verb in ("TABLE", "DELETE FROM")]
    statements += ["SELECT shardwheel.grant_producer('x', 'rival', NULL)", "SET ROLE shardwheel_system"]
    statements += ["SELECT shardwheel.check_producer('acme', 'x')", "CREATE TABLE shardwheel.mine ()"]
    for statement in statements:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.execute(statement.encode())


def test_names_planted_before_ours_are_not_found(shop: Connection, operator: Connection) -> None:
    planted = "CREATE FUNCTION pg_temp.to_jsonb(uuid) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb'"
    shop.execute(planted)
    shop.execute("CREATE TEMP TABLE producers AS SELECT session_user::text AS login, 'rival' AS tenant_id")
    shop.execute("SET search_path = pg_temp, pg_catalog")
    shop.execute("SET standard_conforming_strings = off")
    hostile = "'; DROP TABLE shardwheel.jobs; --"
    ACME.enqueue("welcome", {"x": hostile}, name=hostile, idempotency_key=hostile, conn=shop)
    with pytest.raises(ForbiddenError):
        Client(tenant="rival").enqueue("welcome", conn=shop)
    shop.rollback()
    with pytest.raises(ForbiddenError):
        Client(tenant=hostile).enqueue("welcome", conn=shop)
    assert tasks(operator, "rival") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": '{"every_ms": 0}'},
        {"schedule": '{"every_ms": null}'},
        {"schedule": '{"never": true}'},
        {"schedule": "[]"},
        {"anchor_ms": None},
        {"backoff": {}},
        {"backoff": JOB["backoff"] | {"base_s": 1e300}},
        {"max_retries": 10**6},
        {"params": []},
        {"params": {"a": 10**400}},
        {"params": {"a": [{"b": -(10**400)}]}},
        {"params": nested(101)},
        {"params": {"a": [nested(99)]}},
        {"task": ""},
        {"pool": "mine"},
    ],
)
def test_what_could_stop_a_service_is_refused_whoever_sends_it(
    shop: Connection, wrong: dict[str, Any]
) -> None:
    assert shop.execute(CALL, {"tenant": "acme", "job": json.dumps(JOB)}).fetchone()
    shop.commit()
    with pytest.raises(psycopg.DatabaseError):
        shop.execute(CALL, {"tenant": "acme", "job": json.dumps(JOB | wrong)})


@pytest.mark.parametrize("params", [nested(100), {"a": [nested(98), 1]}, {"a": [1.7e308, -1.7e308, 5e-324]}])
def test_what_the_api_takes_may_come_this_way_too(
    shop: Connection, operator: Connection, params: dict[str, Any]
) -> None:
    parse_posting({"task": "welcome", "params": params})
    shop.execute(CALL, {"tenant": "acme", "job": json.dumps(JOB | {"params": params})})
    shop.commit()
    assert tasks(operator) == ["welcome"]


def test_a_tenants_own_quotas_hold(shop: Connection, operator: Connection) -> None:
    operator.execute(
        "INSERT INTO shardwheel.tenants (tenant_id, limits)"
        """ VALUES ('acme', '{"params_bytes": 20, "active_jobs": 1}')"""
    )
    with pytest.raises(TooLargeError):
        ACME.enqueue("welcome", {"text": "x" * 20}, conn=shop)
    shop.rollback()
    ACME.enqueue("welcome", conn=shop)
    with pytest.raises(LimitedError):
        ACME.enqueue("welcome", conn=shop)
