"""What the contract suite of `Store` needs of an implementation: clients, and a server it may harm.

Two rigs: `MemoryRig` on the twin under a clock that jumps, `PostgresRig` on a real PostgreSQL. Real time
limits are generous, because a test must hold on a machine ten times slower.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import psycopg
import trio
from psycopg.conninfo import make_conninfo
from trio.testing import wait_all_tasks_blocked

from shardwheel.compose.postgres import PostgresServer
from shardwheel.memory.ownership import TABLE
from shardwheel.memory.pool import MemoryPool
from shardwheel.memory.postgres_server import Backup
from shardwheel.memory.store import MemoryStore, migrated_server
from shardwheel.ports import PartitionState, Store
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore
from tests.proxy import Proxy

# So long that nothing ends by it unless something hangs.
PATIENCE_S = 90.0
GENERATION = "kafka-1"


class StoreRig(Protocol):
    def client(self, *, limit_s: float = PATIENCE_S) -> AbstractAsyncContextManager[Store]:
        """A client with connections of its own."""

    def lossy_client(self) -> AbstractAsyncContextManager[Store]:
        """A client to which `lose_next_answer` and `lose_next_request` apply."""

    def lose_next_answer(self) -> None:
        """The next COMMIT is done, and its answer lost."""

    def lose_next_request(self) -> None:
        """The next COMMIT never arrives."""

    async def kill(self) -> None: ...

    async def start(self) -> None: ...

    async def freeze(self) -> None: ...

    async def thaw(self) -> None: ...

    async def break_links(self) -> None:
        """Every client's connections end, wherever they are."""

    def holding(self, partition: int) -> AbstractAsyncContextManager[None]:
        """Another transaction has the partition's row locked."""

    async def until_somebody_waits(self) -> None:
        """Return when a client waits for a locked row."""

    async def set_floor(self, partition: int, floor_ms: int, floor_xid: int) -> None: ...

    async def set_system_identifier(self, partition: int, system_identifier: int) -> None: ...

    async def backup(self) -> None: ...

    async def fail_over(self) -> None:
        """A new timeline begins from the backup: what was committed since is gone."""


class MemoryRig:
    def __init__(self) -> None:
        self.server = migrated_server()
        self._backup: Backup | None = None

    @asynccontextmanager
    async def client(self, *, limit_s: float = PATIENCE_S) -> AsyncIterator[Store]:
        yield MemoryStore(MemoryPool(self.server, limit_s=limit_s))

    def lossy_client(self) -> AbstractAsyncContextManager[Store]:
        return self.client()

    def lose_next_answer(self) -> None:
        self.server.faults.lose_next_answer = True

    def lose_next_request(self) -> None:
        self.server.faults.lose_next_request = True

    async def kill(self) -> None:
        self.server.kill()

    async def start(self) -> None:
        self.server.start()

    async def freeze(self) -> None:
        self.server.faults.freeze()

    async def thaw(self) -> None:
        self.server.faults.thaw()

    async def break_links(self) -> None:
        self.server.break_links()

    @asynccontextmanager
    async def holding(self, partition: int) -> AsyncIterator[None]:
        transaction = self.server.begin()
        transaction.lock(TABLE, partition)
        try:
            yield
        finally:
            transaction.rollback()

    async def until_somebody_waits(self) -> None:
        await wait_all_tasks_blocked()

    async def set_floor(self, partition: int, floor_ms: int, floor_xid: int) -> None:
        state = self.server.tables[TABLE][partition]
        self.server.tables[TABLE][partition] = state._replace(floor_ms=floor_ms, floor_xid=floor_xid)

    async def set_system_identifier(self, partition: int, system_identifier: int) -> None:
        state: PartitionState = self.server.tables[TABLE][partition]
        identity = state.identity._replace(system_identifier=system_identifier)
        self.server.tables[TABLE][partition] = state._replace(identity=identity)

    async def backup(self) -> None:
        self._backup = self.server.backup()

    async def fail_over(self) -> None:
        assert self._backup is not None
        self.server.fail_over(self._backup)


class PostgresRig:
    """A migrated database on a server that may be shared; only a server of one's own may be harmed."""

    def __init__(self, server: PostgresServer, dsn: str, proxy: Proxy) -> None:
        self.server = server
        self.dsn = dsn
        self._proxy = proxy

    @asynccontextmanager
    async def client(self, *, limit_s: float = PATIENCE_S) -> AsyncIterator[Store]:
        async with Pool(self.dsn, name="contract", size=4, limit_s=limit_s) as pool:
            yield PostgresStore(pool)

    @asynccontextmanager
    async def lossy_client(self) -> AsyncIterator[Store]:
        dsn = make_conninfo(self.dsn, port=self._proxy.port, sslmode="disable")
        async with Pool(dsn, name="contract", size=4, limit_s=PATIENCE_S) as pool:
            yield PostgresStore(pool)

    def lose_next_answer(self) -> None:
        self._proxy.lose_answer_to(b"COMMIT")

    def lose_next_request(self) -> None:
        self._proxy.lose_request(b"COMMIT")

    async def kill(self) -> None:
        await trio.to_thread.run_sync(self.server.kill)

    async def start(self) -> None:
        await trio.to_thread.run_sync(self.server.start)

    async def freeze(self) -> None:
        await trio.to_thread.run_sync(self.server.freeze)

    async def thaw(self) -> None:
        await trio.to_thread.run_sync(self.server.thaw)

    async def break_links(self) -> None:
        await self._execute(
            b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            b" WHERE application_name = 'shardwheel contract' AND datname = current_database()"
        )

    @asynccontextmanager
    async def holding(self, partition: int) -> AsyncIterator[None]:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(
                "SELECT FROM shardwheel.partitions WHERE partition = %s FOR UPDATE", [partition]
            )
            yield
            connection.rollback()

    async def until_somebody_waits(self) -> None:
        async def waits() -> bool:
            return bool(
                await self._execute(
                    b"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    b" AND application_name = 'shardwheel contract' AND datname = current_database()"
                )
            )

        await eventually(waits)

    async def set_floor(self, partition: int, floor_ms: int, floor_xid: int) -> None:
        await self._execute(
            b"UPDATE shardwheel.partitions SET floor_ms = %(ms)s, floor_xid = %(xid)s::text::xid8"
            b" WHERE partition = %(partition)s",
            {"ms": floor_ms, "xid": str(floor_xid), "partition": partition},
        )

    async def set_system_identifier(self, partition: int, system_identifier: int) -> None:
        await self._execute(
            b"UPDATE shardwheel.partitions SET system_identifier = %(system)s"
            b" WHERE partition = %(partition)s",
            {"system": system_identifier, "partition": partition},
        )

    async def backup(self) -> None:
        await trio.to_thread.run_sync(self._copy_while_stopped)

    async def fail_over(self) -> None:
        await trio.to_thread.run_sync(self._promote_the_copy)

    @property
    def _copied(self) -> Path:
        return self.server.data_dir / "copy"

    def _copy_while_stopped(self) -> None:
        self.server.stop()
        subprocess.run(["cp", "-a", self.server.data, self._copied], check=True)
        self.server.start()

    def _promote_the_copy(self) -> None:
        """A standby without a primary, as one is after its primary has burnt down."""
        self.server.stop()
        shutil.rmtree(self.server.data)
        self._copied.rename(self.server.data)
        signal_file = self.server.data / "standby.signal"
        signal_file.touch()
        owner = self.server.data.stat()
        os.chown(signal_file, owner.st_uid, owner.st_gid)
        self.server.start()
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            promoted = connection.execute("SELECT pg_promote(true, %s)", [int(PATIENCE_S)]).fetchone()
        assert promoted == (True,)

    async def _execute(self, statement: bytes, params: Mapping[str, object] | None = None) -> list[object]:
        return await trio.to_thread.run_sync(_execute, self.dsn, statement, params)


def _execute(dsn: str, statement: bytes, params: Mapping[str, object] | None = None) -> list[object]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement, params)
        return list(cursor) if cursor.description else []


@contextmanager
def postgres_rig(server: PostgresServer, dsn: str) -> Iterator[PostgresRig]:
    """On a migrated database that tests may share one after another: each finds it as new."""
    _execute(
        dsn,
        b"UPDATE shardwheel.partitions SET epoch = DEFAULT, owner = DEFAULT, fired_through_ms = DEFAULT,"
        b" horizon_xid = DEFAULT, floor_ms = DEFAULT, floor_xid = DEFAULT, kafka_generation = DEFAULT,"
        b" timeline = DEFAULT, system_identifier = DEFAULT",
    )
    with Proxy("127.0.0.1", server.port) as proxy:
        yield PostgresRig(server, dsn, proxy)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds; fail when it does not for very long."""
    with trio.fail_after(PATIENCE_S):
        while not await condition():
            await trio.sleep(0.05)


async def own(store: Store, partitions: list[int], owner: str) -> dict[int, PartitionState]:
    """Become the owner of partitions, and ready to store: what a shard does at its start."""
    seen = {state.partition: state.epoch for state in await store.partitions(partitions)}
    taken = await store.reset_to_floor(
        seen, owner, kafka_generation=GENERATION, identity=await store.identity()
    )
    assert [state.partition for state in taken] == sorted(partitions)
    return {state.partition: state for state in taken}
