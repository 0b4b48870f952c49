"""The in-memory PostgreSQL: xids, snapshots, row locks and faults, under a clock that jumps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, trio_test, wait_all_tasks_blocked

from shardwheel.errors import UnavailableError
from shardwheel.memory.pool import MemoryPool
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.transaction import Transaction


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@pytest.fixture
def server() -> MemoryPostgres:
    return MemoryPostgres(tables=["numbers"])


def put(transaction: Transaction, key: str, value: int) -> int:
    transaction.put("numbers", key, value)
    return transaction.xid


def add(transaction: Transaction, key: str, value: int) -> None:
    transaction.lock("numbers", key)
    transaction.put("numbers", key, (transaction.get("numbers", key) or 0) + value)


def held(server: MemoryPostgres) -> dict[object, object]:
    return dict(server.tables["numbers"])


def constant(seconds: float) -> Callable[[], float]:
    return lambda: seconds


def test_the_horizon_waits_for_the_oldest_open_writer(server: MemoryPostgres) -> None:
    """Out of order: the later xid commits first, and the horizon stays below the earlier one."""
    early, late, reader = server.begin(), server.begin(), server.begin()
    early_xid = put(early, "a", 1)
    late_xid = put(late, "b", 2)
    late.commit()
    assert reader.assigned_xid is None
    assert dict(reader.rows("numbers")) == {"b": 2}
    assert server.snapshot_xmin() == early_xid < late_xid
    early.commit()
    assert server.snapshot_xmin() == late_xid + 1
    assert dict(reader.rows("numbers")) == {"b": 2, "a": 1}


def test_a_transaction_sees_its_own_writes_and_a_rollback_undoes_them(server: MemoryPostgres) -> None:
    first = server.begin()
    put(first, "a", 1)
    put(first, "b", 2)
    first.commit()
    second = server.begin()
    second.put("numbers", "a", None)
    put(second, "c", 3)
    assert dict(second.rows("numbers")) == {"b": 2, "c": 3}
    assert (second.get("numbers", "a"), server.begin().get("numbers", "a")) == (None, 1)
    second.rollback()
    assert held(server) == {"a": 1, "b": 2}


@trio_test
async def test_writers_of_one_row_wait_and_then_see_what_the_other_wrote(
    server: MemoryPostgres, clock: MockClock
) -> None:
    server.faults.commit_pause_s = constant(1.0)
    pool = MemoryPool(server, limit_s=100)
    async with trio.open_nursery() as nursery:
        for value in (1, 10, 100):
            nursery.start_soon(pool.run, add, "sum", value)
    assert held(server) == {"sum": 111}
    assert not server.row_locks
    assert not server.open_transactions


@trio_test
async def test_slow_beyond_the_limit_before_the_commit_applies_nothing(
    server: MemoryPostgres, clock: MockClock
) -> None:
    server.faults.latency_s = constant(20.0)
    with pytest.raises(UnavailableError) as caught:
        await MemoryPool(server, limit_s=10).run(put, "a", 1)
    assert not caught.value.maybe_applied
    assert held(server) == {}


@trio_test
async def test_slow_beyond_the_limit_after_the_commit_leaves_it_open(
    server: MemoryPostgres, clock: MockClock
) -> None:
    """There, COMMIT and back are three ways: the limit passes on the last."""
    server.faults.latency_s = constant(4.0)
    with pytest.raises(UnavailableError) as caught:
        await MemoryPool(server, limit_s=10).run(put, "a", 1)
    assert caught.value.maybe_applied
    assert held(server) == {"a": 1}


@trio_test
async def test_a_commit_under_way_to_a_frozen_server_is_done_when_it_thaws(
    server: MemoryPostgres, clock: MockClock
) -> None:
    server.faults.latency_s = constant(4.0)
    failures: list[UnavailableError] = []

    async def run() -> None:
        with pytest.raises(UnavailableError) as caught:
            await MemoryPool(server, limit_s=10).run(put, "a", 1)
        failures.append(caught.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(6.0)
        server.faults.freeze()
    assert [error.maybe_applied for error in failures] == [True]
    assert held(server) == {}
    assert server.row_locks
    server.faults.thaw()
    assert held(server) == {"a": 1}
    assert not server.row_locks


@trio_test
async def test_a_cancelled_call_leaves_no_lock_behind(server: MemoryPostgres, clock: MockClock) -> None:
    server.faults.commit_pause_s = constant(100.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(MemoryPool(server, limit_s=1000).run, put, "a", 1)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert not server.open_transactions
    assert not server.row_locks
    assert held(server) == {}


@trio_test
async def test_a_fail_over_gives_lost_xids_out_again(server: MemoryPostgres, clock: MockClock) -> None:
    pool = MemoryPool(server)
    await pool.run(put, "kept", 1)
    backup = server.backup()
    lost_xid = await pool.run(put, "lost", 2)
    left_open = server.begin()
    put(left_open, "open", 3)
    before = server.identity
    server.fail_over(backup)
    assert held(server) == {"kept": 1}
    assert server.identity == before._replace(timeline=before.timeline + 1)
    assert await pool.run(put, "new", 4) == lost_xid
    with pytest.raises(UnavailableError):
        left_open.commit()


@trio_test
async def test_its_clock_is_trios_with_a_skew(server: MemoryPostgres, clock: MockClock) -> None:
    first_ms = server.now_ms()
    await trio.sleep(3600)
    assert server.now_ms() == pytest.approx(first_ms + 3_600_000)
    server.skew_ms = -60_000
    assert server.now_ms() == pytest.approx(first_ms + 3_540_000)
