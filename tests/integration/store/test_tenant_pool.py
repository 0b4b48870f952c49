"""The API's pool on real PostgreSQL: one tenant a transaction, an end to every wait, refusals in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.posting import parse_posting
from shardwheel.store import tenant_pool as module
from shardwheel.store.jobs import create_jobs, list_jobs
from shardwheel.store.link import Connection
from shardwheel.store.tenant_pool import TenantPool

pytestmark = pytest.mark.servers


def with_pool(dsn: str, work: Callable[[TenantPool], Awaitable[None]], **settings: Any) -> None:
    pool = TenantPool(dsn, name="test", **({"size": 2} | settings))

    async def main() -> None:
        await work(pool)

    try:
        asyncio.run(main())
    finally:
        pool.close()


def everything(conn: Connection, _tenant: str) -> list[str]:
    """As a statement that forgot the tenant."""
    return [row[0] for row in conn.execute("SELECT tenant_id FROM shardwheel.jobs")]


def test_a_transaction_sees_its_own_tenant_whatever_it_says(migrated_database: str) -> None:
    async def work(pool: TenantPool) -> None:
        for tenant in ("acme", "rival"):
            await pool.run(tenant, create_jobs, [parse_posting({"task": "work"})])
        assert await pool.run("acme", everything) == ["acme"]
        assert await pool.run("rival", everything) == ["rival"]
        assert await pool.run("", everything) == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await pool.run("acme", lambda conn, _: create_jobs(conn, "rival", [parse_posting({"task": "x"})]))
        assert await pool.run("acme", lambda conn, _: list_jobs(conn, "rival")) == []

    with_pool(migrated_database, work)


def test_one_that_takes_too_long_is_cut_and_the_next_one_works(migrated_database: str) -> None:
    def sleep(conn: Connection, _tenant: str) -> None:
        conn.execute("SELECT pg_sleep(60)")

    async def work(pool: TenantPool) -> None:
        with pytest.raises(UnavailableError):
            await pool.run("acme", sleep)
        assert await pool.run("acme", everything) == []

    with_pool(migrated_database, work, limit_s=1.0)


def test_more_than_can_wait_are_refused_at_once(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_PER_LINK", 1)
    held, go_on = threading.Event(), threading.Event()

    def hold(_conn: Connection, _tenant: str) -> None:
        held.set()
        assert go_on.wait(60)

    async def work(pool: TenantPool) -> None:
        first = asyncio.create_task(pool.run("acme", hold))
        await asyncio.to_thread(held.wait, 60)
        with pytest.raises(UnavailableError, match="too many"):
            await pool.run("acme", everything)
        go_on.set()
        await first
        assert await pool.run("acme", everything) == []

    with_pool(migrated_database, work, size=1)


def test_a_value_that_postgresql_does_not_take_is_the_callers_fault(migrated_database: str) -> None:
    def odd(conn: Connection, _tenant: str) -> None:
        conn.execute("SELECT shardwheel.at(9223372036854775807)")

    async def work(pool: TenantPool) -> None:
        with pytest.raises(UsageError, match="choose another"):
            await pool.run("acme", odd)
        assert await pool.run("acme", everything) == []

    with_pool(migrated_database, work)


def test_what_is_under_way_is_given_up_when_the_pool_closes(migrated_database: str) -> None:
    begun = threading.Event()

    def sleep(conn: Connection, _tenant: str) -> None:
        begun.set()
        conn.execute("SELECT pg_sleep(60)")

    async def work(pool: TenantPool) -> None:
        task = asyncio.create_task(pool.run("acme", sleep))
        await asyncio.to_thread(begun.wait, 60)
        await asyncio.to_thread(pool.close)
        with pytest.raises(UnavailableError):
            await task
        with pytest.raises(UnavailableError, match="stopping"):
            await pool.run("acme", everything)

    with_pool(migrated_database, work)
