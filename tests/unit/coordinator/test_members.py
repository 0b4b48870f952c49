"""What members make of a read and of a watch: the newest of both, and nothing that may have a gap."""

from __future__ import annotations

from typing import Any, cast

import trio
from trio.testing import trio_test, wait_all_tasks_blocked

from shardwheel.coordinator.members import Members
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.ports import Delete, KeyEvent, KeyValue, Put, Snapshot
from shardwheel.records import DRAIN, owner_key
from shardwheel.service import Service


def key(partition: int, shard_id: str, revision: int) -> KeyValue:
    return KeyValue(owner_key(partition), shard_id.encode(), revision, revision, 0)


def put(partition: int, shard_id: str, revision: int) -> KeyEvent:
    return KeyEvent(owner_key(partition), key(partition, shard_id, revision), revision)


def delete(partition: int, revision: int) -> KeyEvent:
    return KeyEvent(owner_key(partition), None, revision)


class Reads:
    """`Leases` that can only be read, and answer when a test lets them."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.snapshots = list(snapshots)
        self.open = trio.Event()
        self.open.set()

    async def range(self, prefix: str) -> Snapshot:
        await self.open.wait()
        return self.snapshots.pop(0)


def members_of(reads: Reads) -> Members:
    return Members(Service("a"), cast(Any, reads))


def owners(members: Members) -> dict[int, str]:
    assert members.view is not None
    return {partition: holder.shard_id for partition, holder in members.view.owners.items()}


@trio_test
async def test_an_event_shows_without_another_read_and_wakes_whoever_waits() -> None:
    members = members_of(Reads(Snapshot((key(1, "a", 5), key(2, "a", 5)), 7)))
    await members.run_once()
    number = members.number
    members.take_in([delete(1, 8), put(3, "b", 9)])
    assert await members.newer(number) == number + 1
    assert owners(members) == {2: "a", 3: "b"}
    assert members.view is not None and members.view.revision == 9


@trio_test
async def test_what_a_read_knows_already_is_passed_over() -> None:
    members = members_of(Reads(Snapshot((key(1, "b", 8),), 8)))
    await members.run_once()
    number = members.number
    members.take_in([put(1, "a", 6), delete(1, 7)])
    assert owners(members) == {1: "b"}
    assert members.number == number, "nobody is woken for it"


@trio_test
async def test_a_read_that_an_event_has_overtaken_does_not_turn_the_view_back() -> None:
    old = Snapshot((key(1, "a", 5),), 5)
    reads = Reads(old, old)
    members = members_of(reads)
    await members.run_once()
    reads.open = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.run_once)
        await wait_all_tasks_blocked()
        members.take_in([put(1, "b", 6)])
        reads.open.set()
    assert owners(members) == {1: "b"}


@trio_test
async def test_after_a_gap_nothing_is_applied_until_a_read_that_began_later() -> None:
    first, second, third = (Snapshot((key(1, "a", 5),), 5), Snapshot((), 7), Snapshot((key(2, "c", 9),), 9))
    reads = Reads(first, second, third)
    members = members_of(reads)
    await members.run_once()
    reads.open = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.run_once)
        await wait_all_tasks_blocked()
        members.take_in(None)
        members.take_in([put(3, "b", 10)])
        assert owners(members) == {1: "a"}
        reads.open.set()
    assert owners(members) == {}, "that read may be older than the gap"
    await members.run_once()
    members.take_in([put(3, "b", 10)])
    assert owners(members) == {2: "c", 3: "b"}


@trio_test
async def test_a_watch_keeps_the_view_up_to_date() -> None:
    leases = MemoryLeases(MemoryEtcd())
    members = Members(Service("a"), leases)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(members._run)
            number = await members.newer(0)
            await leases.txn([], [Put(DRAIN, b"a")])
            while members.view is None or members.view.drain is None:
                number = await members.newer(number)
            await leases.txn([], [Delete(DRAIN)])
            while members.view.drain is not None:
                number = await members.newer(number)
            members.end()
