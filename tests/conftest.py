"""What every test gets: the fixtures of tests/servers.py, and property tests that never vary by the run."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.servers import (
    database,
    etcd_server,
    kafka_server,
    migrated_database,
    migrated_template,
    own_etcd,
    own_kafka,
    own_postgres,
    postgres_server,
    topic_name,
)

__all__ = [
    "database",
    "etcd_server",
    "kafka_server",
    "migrated_database",
    "migrated_template",
    "own_etcd",
    "own_kafka",
    "own_postgres",
    "postgres_server",
    "topic_name",
]

# A property that fails must fail for everyone, today and tomorrow; a slow machine is no failure.
settings.register_profile("shardwheel", derandomize=True, deadline=None, database=None)
settings.load_profile("shardwheel")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast ones first: whoever broke something pure hears of it before any server is started."""
    items.sort(key=lambda item: item.get_closest_marker("servers") is not None)
