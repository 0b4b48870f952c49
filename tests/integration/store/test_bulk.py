"""Many rows in and out of a real PostgreSQL: the stream's ends, and that nothing is lost on the way."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest
import trio
from trio.testing import trio_test

from shardwheel.compose.postgres import PostgresServer
from shardwheel.errors import UnavailableError
from shardwheel.store.bulk import copy_in, read_rows
from shardwheel.store.link import Connection
from shardwheel.store.pool import Pool
from shardwheel.store.stream import Items
from tests.servers import fresh_database

pytestmark = pytest.mark.servers

PATIENCE_S = 90.0
# In the list of columns, so that rows come before the series is at its end.
COUNT = b"SELECT generate_series(1, %(most)s::int)"


@pytest.fixture(scope="module")
def dsn(postgres_server: PostgresServer) -> Iterator[str]:
    with fresh_database(postgres_server) as dsn:
        yield dsn


@asynccontextmanager
async def pool_on(dsn: str, *, size: int = 2) -> AsyncIterator[Pool]:
    async with Pool(dsn, name="bulk", size=size, limit_s=PATIENCE_S, close_limit_s=0.1) as pool:
        yield pool


@trio_test
async def test_what_went_in_comes_out(dsn: str) -> None:
    rows = [(os.urandom(16), n, 2**40 + n, None if n % 3 else f"ä {n}") for n in range(2_500)]
    columns = {"id": "uuid", "small": "int2", "xid": "xid8", "note": "text"}
    async with pool_on(dsn) as pool:
        await pool.run(
            lambda connection: connection.execute(
                "CREATE TABLE things (id uuid, small smallint, xid xid8, note text)"
            )
        )
        assert await pool.run(copy_in, "public.things", columns, rows) == 2_500
        statement = b"SELECT uuid_send(id), small, xid::text::bigint, note FROM things ORDER BY small"
        async with pool.stream(read_rows, statement, batch_rows=1_000) as batches:
            read = [batch async for batch in batches]
    assert [len(batch) for batch in read] == [1_000, 1_000, 500]
    assert [row for batch in read for row in batch] == rows


@trio_test
async def test_a_copy_that_fails_leaves_nothing(dsn: str) -> None:
    async with pool_on(dsn) as pool:
        await pool.run(lambda connection: connection.execute("CREATE TABLE once (n bigint PRIMARY KEY)"))
        with pytest.raises(psycopg.errors.UniqueViolation):
            await pool.run(copy_in, "once", {"n": "int8"}, [(1,), (2,), (1,)])
        count = await pool.run(lambda connection: connection.execute("SELECT count(*) FROM once").fetchone())
        assert count == (0,)


@trio_test
async def test_a_stream_is_one_snapshot(dsn: str) -> None:
    """As the load needs it: the horizon and the rows of the same moment."""

    def twice(connection: Connection) -> Items[int]:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for _ in range(2):
            ((number,),) = connection.execute("SELECT count(*) FROM moments")
            yield number

    async with pool_on(dsn) as pool:
        await pool.run(lambda connection: connection.execute("CREATE TABLE moments (n bigint)"))
        async with pool.stream(twice) as counts:
            assert await anext(counts) == 0
            await pool.run(copy_in, "moments", {"n": "int8"}, [(1,)])
            assert await anext(counts) == 0
            with pytest.raises(StopAsyncIteration):
                await anext(counts)


@trio_test
async def test_a_consumer_may_stop_half_way_or_before_it_began(dsn: str) -> None:
    """With a single connection to the pool: what was left must be free again."""
    async with pool_on(dsn, size=1) as pool:
        with trio.fail_after(PATIENCE_S):
            for _ in range(3):
                async with pool.stream(read_rows, COUNT, {"most": 10_000_000}) as batches:
                    assert (await anext(batches))[0] == (1,)
            async with pool.stream(read_rows, COUNT, {"most": 1}):
                pass
            assert await pool.run(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


@trio_test
async def test_a_cancelled_consumer_leaves_at_once(dsn: str) -> None:
    def stuck(connection: Connection) -> Items[int]:
        yield 1
        connection.execute("SELECT pg_sleep(600)")

    async with pool_on(dsn, size=1) as pool:
        with trio.fail_after(PATIENCE_S):
            with trio.move_on_after(0.2) as scope:
                async with pool.stream(stuck) as items:
                    async for _ in items:
                        pass
            assert scope.cancelled_caught
            assert await pool.run(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


@trio_test
async def test_a_stream_that_breaks_says_so_and_does_not_just_end(dsn: str) -> None:
    def with_pid(connection: Connection) -> Items[int]:
        yield connection.info.backend_pid
        for batch in read_rows(connection, COUNT, {"most": 10_000_000}):
            yield len(batch)

    async with pool_on(dsn) as pool:
        with trio.fail_after(PATIENCE_S), pytest.raises(UnavailableError) as caught:
            async with pool.stream(with_pid) as items:
                pid = await anext(items)
                await anext(items)
                await pool.run(
                    lambda connection: connection.execute("SELECT pg_terminate_backend(%s)", [pid]).fetchone()
                )
                async for _ in items:
                    pass
        assert not caught.value.maybe_applied


@trio_test
async def test_a_statement_that_is_wrong_fails_as_it_is_and_a_stream_never_writes(dsn: str) -> None:
    async with pool_on(dsn) as pool:
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with pool.stream(
                read_rows, b"SELECT 1 / (3 - n) FROM generate_series(1, 9) AS n"
            ) as batches:
                async for _ in batches:
                    pass
        with pytest.raises(UnavailableError, match="read-only"):
            async with pool.stream(read_rows, b"CREATE TABLE never (n int)") as batches:
                await anext(batches)
