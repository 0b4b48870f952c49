"""The faults of the etcd in memory, which the simulation relies on. All on a clock that jumps."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import UnavailableError
from shardwheel.memory.leases import Faults, MemoryEtcd, MemoryLeases
from shardwheel.ports import Leases, Put


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


async def keys(leases: Leases) -> list[str]:
    return [item.key for item in (await leases.range("")).items]


async def failed_write(leases: Leases, key: str) -> UnavailableError:
    with pytest.raises(UnavailableError) as caught:
        await leases.txn([], [Put(key, b"")])
    assert caught.value.__cause__ is not None
    return caught.value


@trio_test
async def test_one_client_is_cut_off_and_the_others_are_not(clock: MockClock) -> None:
    server = MemoryEtcd()
    mine, other = MemoryLeases(server), MemoryLeases(server)
    mine.faults = Faults(away=True)
    assert not (await failed_write(mine, "k")).maybe_applied
    assert await keys(other) == []
    mine.faults = Faults()
    assert (await mine.txn([], [Put("k", b"")])).succeeded


@trio_test
async def test_a_write_may_arrive_after_its_sender_gave_up(clock: MockClock) -> None:
    server = MemoryEtcd()
    slow, other = MemoryLeases(server), MemoryLeases(server)
    slow.faults = Faults(request_delay_s=5)
    began_at = trio.current_time()
    assert (await failed_write(slow, "late")).maybe_applied
    assert trio.current_time() - began_at == pytest.approx(2)
    assert await keys(other) == []
    await trio.sleep_until(began_at + 5)
    assert await keys(other) == ["late"]
    slow.faults = Faults(request_delay_s=math.inf)
    assert (await failed_write(slow, "never")).maybe_applied
    await trio.sleep(1_000_000)
    assert await keys(other) == ["late"]


@trio_test
async def test_a_write_may_be_applied_and_its_answer_lost_or_late(clock: MockClock) -> None:
    server = MemoryEtcd()
    mine, other = MemoryLeases(server), MemoryLeases(server)
    mine.faults = Faults(lose_answers=True)
    assert (await failed_write(mine, "a")).maybe_applied
    mine.faults = Faults(answer_delay_s=3)
    assert (await failed_write(mine, "b")).maybe_applied
    with pytest.raises(UnavailableError) as read:
        await mine.range("")
    assert not read.value.maybe_applied
    mine.faults = Faults(request_delay_s=0.5, answer_delay_s=0.5)
    assert await keys(mine) == await keys(other) == ["a", "b"]


@trio_test
async def test_a_call_may_be_cancelled_while_it_waits(clock: MockClock) -> None:
    mine = MemoryLeases(MemoryEtcd())
    mine.faults = Faults(request_delay_s=1)
    with trio.move_on_after(0.5) as scope:
        await mine.range("")
    assert scope.cancelled_caught


@trio_test
async def test_a_stalled_watch_says_nothing_and_then_everything(clock: MockClock) -> None:
    server = MemoryEtcd()
    mine, other = MemoryLeases(server), MemoryLeases(server)
    mine.faults = Faults(stall_watches=True)
    async with mine.watch("", 1) as batches:
        await other.txn([], [Put("a", b"")])
        with trio.move_on_after(100) as scope:
            await anext(batches)
        assert scope.cancelled_caught
        mine.faults = Faults()
        batch = await anext(batches)
        assert batch is not None and [event.key for event in batch] == ["a"]
        server.drop_watches()
        assert await anext(batches) is None


@trio_test
async def test_a_waiting_watch_sees_what_arrives_late_at_its_time(clock: MockClock) -> None:
    server = MemoryEtcd()
    slow, reader = MemoryLeases(server), MemoryLeases(server)
    began_at = trio.current_time()
    slow.faults = Faults(request_delay_s=5)
    async with trio.open_nursery() as nursery, reader.watch("", 1) as batches:

        async def see() -> None:
            await anext(batches)
            assert trio.current_time() - began_at == pytest.approx(5)

        nursery.start_soon(see)
        await trio.testing.wait_all_tasks_blocked()
        await failed_write(slow, "late")


@trio_test
async def test_leases_end_on_time_and_renewing_puts_it_off(clock: MockClock) -> None:
    leases = MemoryLeases(MemoryEtcd())
    lease = await leases.grant(3)
    await leases.txn([], [Put("k", b"", lease)])
    for _ in range(5):
        await trio.sleep(2.9)
        assert await leases.keep_alive(lease)
    await trio.sleep(2.9)
    assert await keys(leases) == ["k"]
    await trio.sleep(0.2)
    assert await keys(leases) == []
    shortest = await leases.grant(1)
    await trio.sleep(1.9)
    assert await leases.keep_alive(shortest)


@trio_test
async def test_no_lease_ends_while_the_server_is_stopped(clock: MockClock) -> None:
    server = MemoryEtcd()
    leases = MemoryLeases(server)
    lease = await leases.grant(3)
    await leases.txn([], [Put("k", b"", lease)])
    server.stop()
    await trio.sleep(100)
    assert not (await failed_write(leases, "x")).maybe_applied
    server.start()
    await trio.sleep(2.9)
    assert await keys(leases) == ["k"]
    await trio.sleep(0.2)
    assert await keys(leases) == []


@trio_test
async def test_the_same_calls_give_the_same_history(clock: MockClock) -> None:
    async def history() -> list[object]:
        server = MemoryEtcd()
        leases = MemoryLeases(server)
        for number in range(3):
            lease = await leases.grant(3 - number)
            await leases.txn([], [Put(f"k{number}", b"", lease), Put(f"l{number}", b"", lease)])
        await trio.sleep(10)
        async with leases.watch("", 1) as batches:
            batch = await anext(batches)
        assert batch is not None
        return list(batch)

    first = await history()
    assert len(first) == 12
    assert await history() == first
