"""The pool on a real PostgreSQL: one transaction a call, whatever goes wrong in it.

What becomes of it when the server is killed, frozen or replaced is in tests/contract.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo
from trio.testing import trio_test

from shardwheel.compose.ports import choose
from shardwheel.compose.postgres import PostgresServer
from shardwheel.errors import UnavailableError
from shardwheel.store.link import Connection
from shardwheel.store.links import CONFLICT_RETRIES
from shardwheel.store.pool import Pool
from tests.proxy import Proxy
from tests.servers import fresh_database

pytestmark = pytest.mark.servers

# So long that nothing ends by it unless something hangs.
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def module_database(postgres_server: PostgresServer) -> Iterator[str]:
    with fresh_database(postgres_server) as dsn:
        yield dsn


@pytest.fixture
def dsn(module_database: str) -> str:
    """A database with a table of numbers, of which there are none yet."""
    with psycopg.connect(module_database) as connection:
        connection.execute("DROP TABLE IF EXISTS numbers")
        connection.execute("CREATE TABLE numbers (number bigint PRIMARY KEY, note text)")
    return module_database


def insert(connection: Connection, number: int) -> None:
    connection.execute("INSERT INTO numbers VALUES (%s)", [number])


def insert_and_fail(connection: Connection, number: int) -> None:
    insert(connection, number)
    raise LookupError


def insert_and_sleep(connection: Connection, number: int) -> None:
    insert(connection, number)
    connection.execute("SELECT pg_sleep(600)")


def numbers(connection: Connection) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY number")]


@asynccontextmanager
async def pool_on(dsn: str, *, size: int = 2, limit_s: float = PATIENCE_S) -> AsyncIterator[Pool]:
    async with Pool(dsn, name="test", size=size, limit_s=limit_s, close_limit_s=0.1) as pool:
        yield pool


@trio_test
async def test_a_call_is_a_transaction(dsn: str) -> None:
    def insert_both(connection: Connection, first: int, *, second: int) -> str:
        insert(connection, first)
        insert(connection, second)
        return "done"

    async with pool_on(dsn) as pool:
        assert await pool.run(insert_both, 1, second=2) == "done"
        # The statement's own failure comes as it is, and takes the whole transaction with it.
        with pytest.raises(psycopg.errors.UniqueViolation):
            await pool.run(insert_both, 3, second=1)
        with pytest.raises(LookupError):
            await pool.run(insert_and_fail, 4)
        assert await pool.run(numbers) == [1, 2]


@trio_test
async def test_work_that_swallows_an_error_is_not_reported_as_committed(dsn: str) -> None:
    """PostgreSQL answers COMMIT of a failed transaction with ROLLBACK, and the driver does not mind."""

    def swallow(connection: Connection) -> None:
        insert(connection, 1)
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")

    async with pool_on(dsn) as pool:
        with pytest.raises(RuntimeError, match="can't be committed"):
            await pool.run(swallow)
        assert await pool.run(numbers) == []


@trio_test
async def test_a_commit_with_a_warning_is_in_doubt(dsn: str) -> None:
    """As when the wait for the synchronous standby is cancelled: committed here, perhaps nowhere else."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE WARNING 'not replicated'; RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON numbers DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION warn()"
        )
    async with pool_on(dsn) as pool:
        with pytest.raises(UnavailableError, match="not replicated") as caught:
            await pool.run(insert, 1)
        assert caught.value.maybe_applied
        assert await pool.run(numbers) == [1]


def conflicting(times: int, number: int) -> tuple[Callable[[Connection], None], list[str]]:
    """Work that meets another transaction that often, as a deadlock and as a failed serialization in turn."""
    states: list[str] = []

    def work(connection: Connection) -> None:
        insert(connection, number)
        if len(states) < times:
            states.append(("40P01", "40001")[len(states) % 2])
            connection.execute(
                "CREATE OR REPLACE FUNCTION pg_temp.meet(state text) RETURNS void LANGUAGE plpgsql"
                " AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = state; END $$"
            )
            connection.execute("SELECT pg_temp.meet(%s)", [states[-1]])

    return work, states


@trio_test
async def test_conflicts_are_tried_again_but_not_for_ever(dsn: str) -> None:
    async with pool_on(dsn) as pool:
        work, states = conflicting(2, number=1)
        await pool.run(work)
        assert states == ["40P01", "40001"]
        work, states = conflicting(1000, number=2)
        with pytest.raises(UnavailableError) as caught:
            await pool.run(work)
        assert len(states) == CONFLICT_RETRIES + 1
        assert not caught.value.maybe_applied
        assert isinstance(caught.value.__cause__, psycopg.OperationalError)
        assert await pool.run(numbers) == [1]


@trio_test
async def test_a_statement_without_end_ends_with_the_limit(dsn: str) -> None:
    async with pool_on(dsn, limit_s=1.0) as hasty, pool_on(dsn) as pool:
        with trio.fail_after(PATIENCE_S), pytest.raises(UnavailableError) as caught:
            await hasty.run(insert_and_sleep, 1)
        assert not caught.value.maybe_applied
        assert await pool.run(numbers) == []


@trio_test
async def test_a_cancelled_call_lets_go_of_its_locks(dsn: str) -> None:
    working = threading.Event()

    def hold(connection: Connection) -> None:
        connection.execute("UPDATE numbers SET note = 'held'")
        working.set()
        connection.execute("SELECT pg_sleep(600)")

    async with pool_on(dsn, size=1) as pool, pool_on(dsn) as other:
        await pool.run(insert, 1)
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pool.run, hold)
                await trio.to_thread.run_sync(working.wait, PATIENCE_S)
                nursery.cancel_scope.cancel()
            # The server notices by itself that nobody waits; the row's next writer gets its turn.
            await other.run(lambda connection: connection.execute("UPDATE numbers SET note = 'mine'"))
            # And the pool's only place is free again.
            assert await pool.run(
                lambda connection: connection.execute("SELECT note FROM numbers").fetchone()
            ) == ("mine",)


@trio_test
async def test_whoever_finds_no_free_connection_waits_for_its_turn(dsn: str) -> None:
    working, go_on = threading.Event(), threading.Event()

    def occupy(connection: Connection) -> None:
        insert(connection, 1)
        working.set()
        go_on.wait(PATIENCE_S)

    async with pool_on(dsn, size=1) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, occupy)
        await trio.to_thread.run_sync(working.wait, PATIENCE_S)
        with trio.move_on_after(0.05) as scope:
            await pool.run(numbers)
        assert scope.cancelled_caught
        go_on.set()
        assert await pool.run(numbers) == [1]


@trio_test
async def test_a_server_that_is_not_there_is_said_so_at_once() -> None:
    nowhere = make_conninfo(host="127.0.0.1", port=choose(), user="nobody", dbname="nothing")
    async with pool_on(nowhere) as pool:
        with trio.fail_after(PATIENCE_S / 2):
            for _ in range(3):
                with pytest.raises(UnavailableError, match="out of reach") as caught:
                    await pool.run(numbers)
                assert not caught.value.maybe_applied
                assert isinstance(caught.value.__cause__, psycopg.OperationalError)


@trio_test
async def test_a_link_that_broke_while_idle_costs_nobody_a_failure(
    dsn: str, postgres_server: PostgresServer
) -> None:
    with Proxy("127.0.0.1", postgres_server.port) as proxy:
        async with pool_on(make_conninfo(dsn, port=proxy.port)) as pool:
            await pool.run(insert, 1)
            proxy.cut_all()
            await pool.run(insert, 2)
            assert await pool.run(numbers) == [1, 2]


@trio_test
async def test_a_link_to_a_server_that_was_demoted_is_left(dsn: str) -> None:
    def demote(connection: Connection) -> None:
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")

    async with pool_on(dsn, size=1) as pool:
        await pool.run(demote)
        await pool.run(insert, 1)
        assert await pool.run(numbers) == [1]


@trio_test
async def test_every_session_has_its_limits_and_its_role(dsn: str) -> None:
    names = (
        "role",
        "application_name",
        "statement_timeout",
        "lock_timeout",
        "transaction_timeout",
        "idle_in_transaction_session_timeout",
        "synchronous_commit",
    )

    def settings(connection: Connection) -> list[str]:
        return [connection.execute("SELECT current_setting(%s)", [name]).fetchall()[0][0] for name in names]

    async with Pool(dsn, name="api", size=1, role="pg_monitor", limit_s=10.0) as pool:
        found = await pool.run(settings)
    assert found == ["pg_monitor", "shardwheel api", "8s", "6s", "10s", "10s", "on"]


@trio_test
async def test_closing_waits_a_while_and_then_cuts(dsn: str) -> None:
    working = threading.Event()
    failures: list[UnavailableError] = []

    def sleep(connection: Connection) -> None:
        working.set()
        connection.execute("SELECT pg_sleep(600)")

    async def run(pool: Pool) -> None:
        try:
            await pool.run(sleep)
        except UnavailableError as error:
            failures.append(error)

    async with pool_on(dsn) as pool:
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run, pool)
                await trio.to_thread.run_sync(working.wait, PATIENCE_S)
                await pool.aclose()
        assert [error.maybe_applied for error in failures] == [False]
        with pytest.raises(UnavailableError, match="closed"):
            await pool.run(numbers)
