"""The servers that the tests of a cluster share, and clusters on them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from tests.integration.cluster.rig import Cluster
from tests.servers import durable_etcd, fresh_database, hasty_kafka, started

ClusterAt = Callable[[str], Cluster]


@pytest.fixture(scope="package")
def calm_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One that is left alone. What one cluster left there is of jobs that the next one does not know."""
    with started(hasty_kafka(tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture(scope="module")
def cluster_at(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    migrated_template: str,
    calm_kafka: KafkaServer,
) -> Iterator[ClusterAt]:
    """Starts a cluster on the etcd that answers there: settled and firing, with a database of its own."""
    with ExitStack() as stack:

        def start(etcd: str) -> Cluster:
            dsn = stack.enter_context(fresh_database(postgres_server, migrated_template))
            folder, name = tmp_path_factory.mktemp("cluster"), f"cluster-{uuid.uuid4().hex[:8]}"
            cluster = Cluster(folder, dsn, etcd, calm_kafka.bootstrap, name)
            stack.callback(cluster.close)
            cluster.begin()
            return cluster

        yield start


@pytest.fixture(scope="module")
def cluster(cluster_at: ClusterAt, etcd_server: EtcdServer) -> Cluster:
    """One for all tests of a module: what one of them did to it is mended before the next."""
    return cluster_at(etcd_server.address)


@pytest.fixture(scope="module")
def harmed_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """One that the module's tests may do anything to."""
    with started(durable_etcd(tmp_path_factory.mktemp("etcd"))) as server:
        yield server
