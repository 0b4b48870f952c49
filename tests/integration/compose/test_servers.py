from __future__ import annotations

from collections.abc import Callable

import pytest

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer

pytestmark = pytest.mark.servers


def test_all(
    postgres_server: PostgresServer,
    etcd_server: EtcdServer,
    kafka_server: KafkaServer,
    own_etcd: Callable[[], EtcdServer],
) -> None:
    assert postgres_server.ready() and etcd_server.ready() and kafka_server.ready()
    s = own_etcd()
    s.freeze()
