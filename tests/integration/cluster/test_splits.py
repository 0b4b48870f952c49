"""One shard that can't reach etcd, or PostgreSQL, while all others can: nothing breaks, nothing arrives."""

from __future__ import annotations

import pytest

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.postgres import PostgresServer
from tests.integration.cluster.rig import SHARDS, Cluster
from tests.proxy import Proxy

pytestmark = pytest.mark.servers


def test_a_shard_that_is_split_from_etcd_and_then_from_postgres(
    cluster: Cluster, harmed_etcd: EtcdServer, postgres_server: PostgresServer
) -> None:
    with (
        Proxy("127.0.0.1", harmed_etcd.port) as etcd,
        Proxy("127.0.0.1", postgres_server.port) as postgres,
        cluster.rerouted(SHARDS[0], etcd_port=etcd.port, postgres_port=postgres.port),
    ):
        cluster.tell("split from etcd")
        lonely = cluster.id_of(SHARDS[0])
        etcd.split()
        cluster.wait_replaced(lonely)
        etcd.heal()
        cluster.wait_ended(lonely)
        cluster.wait_whole()

        cluster.tell("split from PostgreSQL")
        owned = cluster.owned_by(cluster.id_of(SHARDS[0]))
        postgres.split()
        cluster.wait_ran(owned)
        postgres.heal()
        cluster.wait_whole()
    assert cluster.check() > 1000
