"""The store of the loop, twice: the twin in memory under a clock that jumps, and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trio.testing import MockClock

from shardwheel.compose.postgres import PostgresServer
from tests.contract.loop_rig import LoopRig, MemoryLoopRig, postgres_loop_rig
from tests.servers import fresh_database

BOTH = ["memory", pytest.param("postgres", marks=pytest.mark.servers)]


@pytest.fixture(scope="module")
def module_database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    with fresh_database(postgres_server, migrated_template) as dsn:
        yield dsn


@pytest.fixture(params=BOTH)
def rig(request: pytest.FixtureRequest) -> Iterator[LoopRig]:
    if request.param == "memory":
        yield MemoryLoopRig()
        return
    with postgres_loop_rig(request.getfixturevalue("module_database")) as real:
        yield real


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> MockClock | None:
    in_memory = "memory" in request.node.callspec.params.values()
    return MockClock(autojump_threshold=0) if in_memory else None
