"""The servers that a benchmark needs: real, durable, in a temporary folder, and stopped whatever happens.

Durable, since a figure measured without fsync would promise what no user gets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import psycopg

from shardwheel.compose import jars
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from shardwheel.compose.server import Server
from shardwheel.store.migrate import migrate

AnyServer = TypeVar("AnyServer", bound=Server)


@contextmanager
def embedded_postgres(say: Callable[[str], None]) -> Iterator[str]:
    """The DSN of a database that has the schema and nothing else."""
    with _started(PostgresServer, say) as server:
        with psycopg.connect(server.dsn) as connection:
            migrate(connection)
        yield server.dsn


@contextmanager
def embedded_etcd(say: Callable[[str], None]) -> Iterator[str]:
    with _started(EtcdServer, say) as server:
        yield server.endpoint


@contextmanager
def embedded_kafka(say: Callable[[str], None]) -> Iterator[str]:
    """The bootstrap address of a Kafka without topics."""
    jars.ensure()
    with _started(KafkaServer, say) as server:
        yield server.bootstrap


@contextmanager
def _started(make: Callable[[Path], AnyServer], say: Callable[[str], None]) -> Iterator[AnyServer]:
    with tempfile.TemporaryDirectory(prefix="shardwheel-bench-", ignore_cleanup_errors=True) as folder:
        server = make(Path(folder))
        say(f"starting {server.name}")
        try:
            server.start()
            yield server
        finally:
            server.stop()


class Servers(NamedTuple):
    dsn: str
    etcd: str
    kafka: str


@contextmanager
def embedded_servers(say: Callable[[str], None]) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(
            stack.enter_context(embedded_postgres(say)),
            stack.enter_context(embedded_etcd(say)),
            stack.enter_context(embedded_kafka(say)),
        )
