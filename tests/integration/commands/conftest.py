"""The environment in which `shardctl` finds an API on a test's own database, as the default tenant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.api.rig import served, token


@contextmanager
def api_environment(dsn: str) -> Iterator[dict[str, str]]:
    with served(dsn) as rig:
        yield {
            "SHARDWHEEL_API_URL": str(rig.client.base_url),
            "SHARDWHEEL_TOKEN": token("default"),
            "SHARDWHEEL_DATA": "/nonexistent",
        }


@pytest.fixture
def with_api(migrated_database: str) -> Iterator[dict[str, str]]:
    with api_environment(migrated_database) as environment:
        yield environment
