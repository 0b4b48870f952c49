"""What the contract suite of the loop's store needs: the store, a look at its rows, and some time travel.

Two rigs: the twin in memory under a clock that jumps, and a real PostgreSQL. Whatever a scenario does goes
through the same functions of `store/` on both; only what time would bring is set here by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import msgspec
import psycopg
from trio.testing import wait_all_tasks_blocked

from shardwheel.memory import hold_rows, ownership, rows
from shardwheel.memory.connection import MemoryConnection
from shardwheel.memory.loop_store import MemoryLoopStore, loop_server
from shardwheel.memory.pool import MemoryPool
from shardwheel.store.arrays import Uuid
from shardwheel.store.claim import LEASES
from shardwheel.store.pool import Pool
from shardwheel.store.postgres import PostgresStore
from tests.contract.store_rig import PATIENCE_S, eventually

T = TypeVar("T")
LoopStore = PostgresStore | MemoryLoopStore


class Seen(NamedTuple):
    """An execution as a scenario looks at it."""

    scheduled_ms: int
    state: str
    reason: str | None
    attempt: int
    origin: str


class LoopRig(Protocol):
    def open(self) -> AbstractAsyncContextManager[LoopStore]: ...

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """Call a function of `store/` in a transaction of its own."""

    def long(self, fn: Callable[..., Any], *args: Any) -> AbstractAsyncContextManager[None]:
        """The same, but the transaction is committed only when the block ends."""

    async def until_somebody_waits(self) -> None: ...

    async def executions(self) -> list[Seen]:
        """All of them, in the order of their ids."""

    async def progress(self) -> list[Any]:
        """Of all executions, in the order of their ids."""

    async def spans(self) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Skip ranges (reason, count) and work rows (origin, count)."""

    async def age(self, job_id: bytes, by_ms: int) -> None:
        """As if the job had been made that much earlier."""

    async def set_floor(self, partition: int, floor_ms: int, fired_through_ms: int) -> None:
        """All with a fire time up to here, of schedules as they are now, met the claim."""

    async def set_timeline(self, partition: int, timeline: int) -> None:
        """The partition's row was written on that timeline."""

    async def end_leases(self) -> None: ...

    async def overrun(self, by_s: float, heard_s_ago: float) -> None:
        """What runs (pool short) is past its time-out, and its worker was heard of so long ago."""

    async def make_overdue(self) -> None:
        """Whatever waits was due an hour ago."""

    async def hang(self) -> None:
        """Whatever runs should have ended an hour ago, and its worker is still heard of."""

    async def slots(self) -> tuple[int, int]:
        """How many slots of tasks, and of jobs, somebody has."""

    async def wait_out_breakers(self) -> None:
        """The time of all that are open is over."""

    async def let_tokens_come(self, seconds: float) -> None: ...

    async def silence_workers(self) -> None:
        """No worker was heard of for an hour."""


class MemoryLoopRig:
    def __init__(self) -> None:
        self.server = loop_server()
        self._store = MemoryLoopStore(MemoryPool(self.server, limit_s=PATIENCE_S))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[LoopStore]:
        yield self._store

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        return await self._store.run(fn, *args)

    @asynccontextmanager
    async def long(self, fn: Callable[..., Any], *args: Any) -> AsyncIterator[None]:
        transaction = self.server.begin()
        fn(cast(Any, MemoryConnection(transaction)), *args)
        yield
        transaction.commit()

    async def until_somebody_waits(self) -> None:
        await wait_all_tasks_blocked()

    async def executions(self) -> list[Seen]:
        table = sorted(self.server.tables[rows.EXECUTIONS].values())
        return [Seen(x.scheduled_ms, x.state, x.reason, x.attempt, x.origin) for x in table]

    async def progress(self) -> list[Any]:
        table = sorted(self.server.tables[rows.EXECUTIONS].values())
        return [msgspec.json.decode(x.progress) if x.progress else None for x in table]

    async def spans(self) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        skips = [(row.reason, row.times) for row in self.server.tables[rows.SKIP_RANGES].values()]
        return skips, [(row.origin, row.times) for row in self.server.tables[rows.WORK_ROWS].values()]

    async def age(self, job_id: bytes, by_ms: int) -> None:
        stored: rows.StoredJob = self.server.tables[rows.JOBS][job_id]
        row = stored.row
        earlier = row._replace(
            effective_from_ms=row.effective_from_ms - by_ms,
            anchor_ms=None if row.anchor_ms is None else row.anchor_ms - by_ms,
            start_ms=None if row.start_ms is None else row.start_ms - by_ms,
        )
        self.server.tables[rows.JOBS][job_id] = stored._replace(row=earlier)

    async def set_floor(self, partition: int, floor_ms: int, fired_through_ms: int) -> None:
        state = self.server.tables[ownership.TABLE][partition]
        self.server.tables[ownership.TABLE][partition] = state._replace(
            floor_ms=floor_ms,
            fired_through_ms=fired_through_ms,
            floor_xid=self.server.next_xid,
            horizon_xid=self.server.next_xid,
        )

    async def set_timeline(self, partition: int, timeline: int) -> None:
        state = self.server.tables[ownership.TABLE][partition]
        identity = state.identity._replace(timeline=timeline)
        self.server.tables[ownership.TABLE][partition] = state._replace(identity=identity)

    async def end_leases(self) -> None:
        self._update("running", lease_until_ms=self.server.now_ms() - 1000)

    async def overrun(self, by_s: float, heard_s_ago: float) -> None:
        now_ms = self.server.now_ms()
        lease_until_ms = now_ms + (LEASES["short"].total_seconds() - heard_s_ago) * 1000
        self._update("running", timeout_at_ms=now_ms - by_s * 1000, lease_until_ms=lease_until_ms)

    async def make_overdue(self) -> None:
        self._update("queued", due_ms=self.server.now_ms() - 3_600_000)

    async def hang(self) -> None:
        self._update("running", timeout_at_ms=self.server.now_ms() - 3_600_000)

    async def slots(self) -> tuple[int, int]:
        taken = [slot for slot in self.server.tables[hold_rows.TASK_SLOTS].values() if slot.execution_id]
        return len(taken), len(self.server.tables[hold_rows.OVERLAP_SLOTS])

    async def wait_out_breakers(self) -> None:
        table = self.server.tables[hold_rows.TASK_BREAKERS]
        for key, row in table.items():
            if row.open_until_ms is not None:
                table[key] = row._replace(open_until_ms=self.server.now_ms() - 1)

    async def let_tokens_come(self, seconds: float) -> None:
        table = self.server.tables[hold_rows.TASK_BUDGETS]
        for key, row in table.items():
            table[key] = row._replace(refilled_ms=row.refilled_ms - seconds * 1000)

    async def silence_workers(self) -> None:
        table = self.server.tables[hold_rows.WORKERS]
        for key, row in table.items():
            table[key] = row._replace(seen_ms=row.seen_ms - 3_500_000)

    def _update(self, state: str, **columns: Any) -> None:
        table = self.server.tables[rows.EXECUTIONS]
        for key, row in table.items():
            if row.state == state and (state != "running" or row.lease_until_ms is not None):
                table[key] = row._replace(**columns)


class PostgresLoopRig:
    def __init__(self, dsn: str, connection: psycopg.Connection[Any]) -> None:
        self._dsn = dsn
        self._connection = connection
        self._pool: Pool | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[LoopStore]:
        async with Pool(self._dsn, name="contract", size=4, limit_s=PATIENCE_S) as pool:
            self._pool = pool
            yield PostgresStore(pool)

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        assert self._pool is not None
        return await self._pool.run(fn, *args)

    @asynccontextmanager
    async def long(self, fn: Callable[..., Any], *args: Any) -> AsyncIterator[None]:
        with psycopg.connect(self._dsn) as connection:
            fn(connection, *args)
            yield
            connection.commit()

    async def until_somebody_waits(self) -> None:
        async def waits() -> bool:
            return bool(
                self._rows(
                    b"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    b" AND application_name = 'shardwheel contract' AND datname = current_database()"
                )
            )

        await eventually(waits)

    async def executions(self) -> list[Seen]:
        found = self._rows(
            b"SELECT shardwheel.ms(scheduled_at), state, reason, attempt, origin"
            b" FROM shardwheel.executions ORDER BY execution_id"
        )
        return [Seen._make(row) for row in found]

    async def progress(self) -> list[Any]:
        return [
            row[0] for row in self._rows(b"SELECT progress FROM shardwheel.executions ORDER BY execution_id")
        ]

    async def spans(self) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        skips = self._rows(b"SELECT reason, count FROM shardwheel.skip_ranges ORDER BY created_at")
        return skips, self._rows(b"SELECT origin, count FROM shardwheel.work_rows ORDER BY work_id")

    async def age(self, job_id: bytes, by_ms: int) -> None:
        """Triggers are off while its times are set back."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL session_replication_role = replica")
            self._connection.execute(
                """UPDATE shardwheel.jobs SET effective_from = effective_from - %(by)s * interval '1 ms',
                          anchor_at = anchor_at - %(by)s * interval '1 ms',
                          start_at = start_at - %(by)s * interval '1 ms' WHERE job_id = %(job)s""",
                {"by": by_ms, "job": Uuid(job_id)},
            )

    async def set_floor(self, partition: int, floor_ms: int, fired_through_ms: int) -> None:
        self._connection.execute(
            """UPDATE shardwheel.partitions SET floor_ms = %s, fired_through_ms = %s,
                      floor_xid = pg_snapshot_xmax(pg_current_snapshot()),
                      horizon_xid = pg_snapshot_xmax(pg_current_snapshot())
                WHERE partition = %s""",
            [floor_ms, fired_through_ms, partition],
        )

    async def set_timeline(self, partition: int, timeline: int) -> None:
        self._connection.execute(
            "UPDATE shardwheel.partitions SET timeline = %s WHERE partition = %s", [timeline, partition]
        )

    async def end_leases(self) -> None:
        self._connection.execute(
            "UPDATE shardwheel.executions SET lease_until = clock_timestamp() - interval '1 s'"
            " WHERE state = 'running' AND lease_until IS NOT NULL"
        )

    async def overrun(self, by_s: float, heard_s_ago: float) -> None:
        self._connection.execute(
            """UPDATE shardwheel.executions SET timeout_at = clock_timestamp() - %s * interval '1 s',
                      lease_until = clock_timestamp() + %s
                 WHERE state = 'running' AND lease_until IS NOT NULL""",
            [by_s, LEASES["short"] - timedelta(seconds=heard_s_ago)],
        )

    async def make_overdue(self) -> None:
        with self._connection.transaction():
            self._connection.execute("SET LOCAL session_replication_role = replica")
            self._connection.execute(
                "UPDATE shardwheel.executions SET due_at = clock_timestamp() - interval '1 h'"
                " WHERE state = 'queued'"
            )

    async def hang(self) -> None:
        self._connection.execute(
            "UPDATE shardwheel.executions SET timeout_at = clock_timestamp() - interval '1 h'"
            " WHERE state = 'running' AND lease_until IS NOT NULL"
        )

    async def slots(self) -> tuple[int, int]:
        ((of_tasks,),) = self._rows(
            b"SELECT count(*) FROM shardwheel.task_slots WHERE execution_id IS NOT NULL"
        )
        ((of_jobs,),) = self._rows(b"SELECT count(*) FROM shardwheel.overlap_slots")
        return of_tasks, of_jobs

    async def wait_out_breakers(self) -> None:
        self._connection.execute(
            "UPDATE shardwheel.task_breakers SET open_until = clock_timestamp() WHERE open_until IS NOT NULL"
        )

    async def let_tokens_come(self, seconds: float) -> None:
        self._connection.execute(
            "UPDATE shardwheel.task_budgets SET refilled_at = refilled_at - %s * interval '1 s'", [seconds]
        )

    async def silence_workers(self) -> None:
        self._connection.execute("UPDATE shardwheel.workers SET seen_at = seen_at - interval '58 min'")

    def _rows(self, statement: bytes) -> list[Any]:
        return self._connection.execute(statement).fetchall()


@contextmanager
def postgres_loop_rig(dsn: str) -> Iterator[PostgresLoopRig]:
    """On a migrated database that tests share one after another: each finds it empty."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "TRUNCATE shardwheel.jobs, shardwheel.executions, shardwheel.attempts, shardwheel.skip_ranges,"
            " shardwheel.work_rows, shardwheel.dead_letters, shardwheel.overlap_slots, shardwheel.task_types,"
            " shardwheel.task_slots, shardwheel.task_budgets, shardwheel.task_breakers,"
            " shardwheel.task_tallies, shardwheel.workers, shardwheel.execution_logs,"
            " shardwheel.dag_versions, shardwheel.dag_tasks, shardwheel.dag_edges, shardwheel.dag_runs,"
            " shardwheel.dag_counters,"
            " shardwheel.dag_fans, shardwheel.dag_put_off, shardwheel.deleted_held"
        )
        connection.execute(
            "UPDATE shardwheel.partitions SET epoch = DEFAULT, owner = DEFAULT, fired_through_ms = DEFAULT,"
            " horizon_xid = DEFAULT, floor_ms = DEFAULT, floor_xid = DEFAULT, kafka_generation = DEFAULT,"
            " timeline = DEFAULT, system_identifier = DEFAULT"
        )
        yield PostgresLoopRig(dsn, connection)
