"""docs/deploy.md from empty servers to a job that ran, with every service in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardwheel.compose import ports
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from tests.integration.pages.dev import environment, walk_through
from tests.shell import shardctl_ready

pytestmark = pytest.mark.servers


def test_services_on_servers_of_ones_own(
    tmp_path: Path,
    own_postgres: Callable[[], PostgresServer],
    own_etcd: Callable[[], EtcdServer],
    own_kafka: Callable[[], KafkaServer],
) -> None:
    postgres = own_postgres()
    variables = {
        "ADMIN": postgres.dsn,
        "DB": postgres.address,
        "ETCD": own_etcd().endpoint,
        "KAFKA": own_kafka().bootstrap,
        "PORT": str(ports.choose()),
    }
    home = tmp_path / "home"
    home.mkdir()
    with shardctl_ready(home) as bin_folder:
        walk_through("docs/deploy.md", tmp_path, environment(bin_folder, home) | variables, least=14)
