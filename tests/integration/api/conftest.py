"""One served API for each file: its tests leave each other's tenants alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardwheel.compose.postgres import PostgresServer
from tests.integration.api.rig import Rig, served
from tests.servers import fresh_database


@pytest.fixture(scope="module")
def api(postgres_server: PostgresServer, migrated_template: str) -> Iterator[Rig]:
    with fresh_database(postgres_server, migrated_template) as dsn, served(dsn) as rig:
        yield rig
