"""The cluster that all tests here share, and its servers: what one test did to it is mended before the next.

One, since starting it takes longer than most faults, and since two of them on one Kafka would take each
other's messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.postgres import PostgresServer
from tests.integration.cluster.rig import Cluster
from tests.servers import durable_etcd, fresh_database, hasty_kafka, started


@pytest.fixture(scope="package")
def harmed_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """The cluster's own: a test may do anything to it."""
    with started(durable_etcd(tmp_path_factory.mktemp("etcd"))) as server:
        yield server


@pytest.fixture(scope="package")
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    migrated_template: str,
    harmed_etcd: EtcdServer,
) -> Iterator[Cluster]:
    """Settled and firing, with a database and a Kafka of its own."""
    with (
        fresh_database(postgres_server, migrated_template) as dsn,
        started(hasty_kafka(tmp_path_factory.mktemp("kafka"))) as kafka,
    ):
        folder, name = tmp_path_factory.mktemp("cluster"), f"cluster-{uuid.uuid4().hex[:8]}"
        rig = Cluster(folder, dsn, harmed_etcd.address, kafka.bootstrap, name)
        try:
            rig.begin()
            yield rig
        finally:
            rig.close()
