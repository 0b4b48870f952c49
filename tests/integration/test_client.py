"""The client inside the caller's own transaction: the job commits or vanishes with the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from shardwheel import AsyncClient, Client
from shardwheel.client.answers import Job
from shardwheel.errors import ConflictError, UsageError
from shardwheel.ids import id_of
from shardwheel.store.jobs import get_job, list_jobs
from tests.integration.store.blocking import LIMIT_S, blocked

pytestmark = pytest.mark.servers


def tasks(conn: psycopg.Connection[Any]) -> list[str]:
    return [job.task for job in list_jobs(conn, "default")]


def test_a_job_is_part_of_the_callers_transaction(migrated_database: str) -> None:
    client = Client()
    with psycopg.connect(migrated_database) as conn:
        client.enqueue("lost", conn=conn)
        conn.rollback()
        kept = client.enqueue("kept", {"x": 1}, conn=conn, delay=60)
        conn.commit()
        job = get_job(conn, "default", id_of(kept.id))
        assert (tasks(conn), job.params, job.schedule) == (["kept"], {"x": 1}, "{}")
        with pytest.raises(UsageError) as caught:
            client.create_job("bad", conn=conn, cron="nonsense")
        assert caught.value.field == "cron"
        assert tasks(conn) == ["kept"]


def test_the_callers_own_kind_of_rows_is_left_alone(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, row_factory=psycopg.rows.dict_row) as conn:
        Client().enqueue("report", conn=conn, idempotency_key="k")
        row = conn.execute("SELECT task FROM shardwheel.jobs").fetchone()
        assert row == {"task": "report"}


def test_a_key_gives_the_same_job_again_and_refuses_another_body(migrated_database: str) -> None:
    client = Client()
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        first = client.enqueue("report", {"month": 10}, conn=conn, idempotency_key="r-10")
        assert client.enqueue("report", {"month": 10}, conn=conn, idempotency_key="r-10") == first
        with pytest.raises(ConflictError):
            client.enqueue("report", {"month": 11}, conn=conn, idempotency_key="r-10")
        assert Client(tenant="other").enqueue("report", conn=conn, idempotency_key="r-10") != first
        conn.execute("UPDATE shardwheel.idempotency_keys SET expires_at = now() - interval '1 s'")
        assert client.enqueue("report", {"month": 10}, conn=conn, idempotency_key="r-10") != first


def test_two_at_once_with_one_key_make_one_job(migrated_database: str) -> None:
    client = Client()
    with psycopg.connect(migrated_database) as conn:
        first = client.enqueue("report", conn=conn, idempotency_key="k")

        def again(other: psycopg.Connection[Any]) -> Job:
            return client.enqueue("report", conn=other, idempotency_key="k")

        with blocked(migrated_database, again) as second:
            conn.commit()
            assert second.result(LIMIT_S) == first
        assert tasks(conn) == ["report"]


def test_an_asynchronous_connection_is_used_from_its_own_loop(migrated_database: str) -> None:
    async def story() -> list[str]:
        client = AsyncClient()
        async with await psycopg.AsyncConnection.connect(
            migrated_database, row_factory=psycopg.rows.dict_row
        ) as conn:
            await client.enqueue("lost", conn=conn)
            await conn.rollback()
            kept = await client.enqueue("kept", {"x": 1}, conn=conn, idempotency_key="k")
            assert await client.enqueue("kept", {"x": 1}, conn=conn, idempotency_key="k") == kept
            with pytest.raises(UsageError, match="AsyncClient"):
                Client().enqueue("kept", conn=conn)
        return [kept.task, str(kept.params)]

    assert asyncio.run(story()) == ["kept", "{'x': 1}"]
    with psycopg.connect(migrated_database) as conn:
        assert tasks(conn) == ["kept"]
