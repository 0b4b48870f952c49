"""Real servers for tests, as fixtures.

`postgres_server`, `etcd_server`, `kafka_server` are shared by the whole run and started when first asked for:
no test may harm them. A test that kills, freezes or restarts asks a factory for one of its own:

    def test_it_recovers(own_etcd):
        server = own_etcd()            # up and answering
        server.kill(); server.start()  # same port, same data

Whatever a test does to its own server, it is stopped afterwards, and its data goes with the test's folder.
"""

from __future__ import annotations

import itertools
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from psycopg import sql

from shardwheel.compose import jars
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from shardwheel.compose.server import Server
from shardwheel.store.migrate import migrate

AnyServer = TypeVar("AnyServer", bound=Server)

# A slow machine that does other things besides must still make it.
START_LIMIT_S = 120


@contextmanager
def started(server: AnyServer) -> Iterator[AnyServer]:
    try:
        server.start(START_LIMIT_S)
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.data_dir, ignore_errors=True)


@contextmanager
def factory(make: Callable[[Path], AnyServer], folder: Path) -> Iterator[Callable[[], AnyServer]]:
    """Each call starts one more server; all of them are stopped at the end."""
    with ExitStack() as stack:
        numbers = itertools.count()
        yield lambda: stack.enter_context(started(make(folder / f"server-{next(numbers)}")))


def hasty_postgres(folder: Path) -> PostgresServer:
    return PostgresServer(folder, durable=False)


def hasty_etcd(folder: Path) -> EtcdServer:
    return EtcdServer(folder, durable=False)


def durable_etcd(folder: Path) -> EtcdServer:
    """For those that are killed: without fsync, etcd also leaves what it acknowledged in its own memory."""
    return EtcdServer(folder)


def hasty_kafka(folder: Path) -> KafkaServer:
    jars.ensure()
    return KafkaServer(folder)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with started(hasty_postgres(tmp_path_factory.mktemp("postgres"))) as server:
        yield server


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with started(hasty_etcd(tmp_path_factory.mktemp("etcd"))) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with started(hasty_kafka(tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[Callable[[], PostgresServer]]:
    with factory(hasty_postgres, tmp_path / "own-postgres") as start_one:
        yield start_one


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Callable[[], EtcdServer]]:
    with factory(durable_etcd, tmp_path / "own-etcd") as start_one:
        yield start_one


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Callable[[], KafkaServer]]:
    with factory(hasty_kafka, tmp_path / "own-kafka") as start_one:
        yield start_one


@contextmanager
def fresh_database(server: PostgresServer, template: str = "template1") -> Iterator[str]:
    """A database of one's own, as a DSN; dropped afterwards with whoever is still connected."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            # Copying the files is ten times as quick here as writing all pages through the log.
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    try:
        yield server.dsn_of(name)
    finally:
        # One that a stuck backend still uses goes with the server.
        with psycopg.connect(server.dsn, autocommit=True) as connection, suppress(psycopg.errors.ObjectInUse):
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty database on the shared PostgreSQL, as a DSN."""
    with fresh_database(postgres_server) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a database with the schema in it, and nobody connected: to be copied, not to be used."""
    with fresh_database(postgres_server) as dsn:
        with psycopg.connect(dsn) as connection:
            migrate(connection)
            template = connection.info.dbname
        _wait_until_unused(postgres_server, template)
        yield template


@pytest.fixture
def migrated_database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """A fresh database with the schema on the shared PostgreSQL, as a DSN; a copy, so it is quick."""
    with fresh_database(postgres_server, migrated_template) as dsn:
        yield dsn


def _wait_until_unused(server: PostgresServer, name: str) -> None:
    """A closed connection's backend ends a moment later; a database in use can't be copied."""
    give_up_at_s = time.monotonic() + START_LIMIT_S
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        while connection.execute("SELECT 1 FROM pg_stat_activity WHERE datname = %s", [name]).fetchone():
            assert time.monotonic() < give_up_at_s, f"{name} is still in use"
            time.sleep(0.01)


@pytest.fixture
def topic_name() -> Callable[[str], str]:
    """Names of topics (and groups) that no other test uses: `topic_name("jobs")`. It creates nothing."""
    return unique_name


def unique_name(stem: str) -> str:
    return f"{stem}.{uuid.uuid4().hex[:12]}"
