"""The contract of `Leases`, on the twin in memory and on a real etcd."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import NotFoundError, UnavailableError, UsageError
from shardwheel.ports import TXN_OPERATIONS_LIMIT, Compare, Delete, KeyEvent, KeyValue, Put
from tests.contract.leases_rig import (
    PATIENCE_S,
    EtcdRig,
    LeasesRig,
    MemoryRig,
    put_bound_to_a_short_lease,
    take_events,
)

BOTH = ["memory", pytest.param("etcd", marks=pytest.mark.servers)]


@pytest.fixture(params=BOTH)
def rig(request: pytest.FixtureRequest) -> LeasesRig:
    """For tests that harm nothing: the real half shares one etcd."""
    if request.param == "memory":
        return MemoryRig()
    return EtcdRig(request.getfixturevalue("etcd_server"))


@pytest.fixture(params=BOTH)
def own_rig(request: pytest.FixtureRequest) -> LeasesRig:
    """For tests that stop, wipe or compact: the real half starts an etcd of its own."""
    if request.param == "memory":
        return MemoryRig()
    return EtcdRig(request.getfixturevalue("own_etcd")())


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> MockClock | None:
    """trio_test runs under the clock it is given: one that jumps for the twin, the real one for etcd."""
    in_memory = "memory" in request.node.callspec.params.values()
    return MockClock(autojump_threshold=0) if in_memory else None


@trio_test
async def test_a_range_holds_exactly_the_keys_with_its_prefix(
    rig: LeasesRig, clock: MockClock | None
) -> None:
    async with rig.client() as leases:
        lease = await leases.grant(600)
        written = await leases.txn(
            [],
            [
                Put("shards/ü", b"\x00\xff", lease),
                Put("shards/a", b""),
                Put("shardsx", b"no"),
                Put("s", b"no"),
            ],
        )
        assert written.succeeded
        snapshot = await leases.range("shards/")
        assert snapshot.revision >= written.revision
        assert snapshot.items == (
            KeyValue("shards/a", b"", written.revision, written.revision, 0),
            KeyValue("shards/ü", b"\x00\xff", written.revision, written.revision, lease),
        )
        assert len((await leases.range("")).items) == 4
        assert (await leases.range("other/")).items == ()


@trio_test
async def test_a_range_of_many_pages_is_complete_and_in_order(
    rig: LeasesRig, clock: MockClock | None
) -> None:
    keys = [f"owners/{number:05}" for number in range(20 * TXN_OPERATIONS_LIMIT)]
    async with rig.client() as leases:
        for start in range(0, len(keys), TXN_OPERATIONS_LIMIT):
            await leases.txn([], [Put(key, b"x") for key in keys[start : start + TXN_OPERATIONS_LIMIT]])
        snapshot = await leases.range("owners/")
        assert [item.key for item in snapshot.items] == keys


@trio_test
async def test_only_the_first_finds_a_key_absent(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as one, rig.client() as other:
        first = await one.txn([Compare("owners/1", 0)], [Put("owners/1", b"one")])
        second = await other.txn([Compare("owners/1", 0)], [Put("owners/1", b"other")])
        assert first.succeeded
        assert not second.succeeded
        assert second.revision >= first.revision
        assert [item.value for item in (await other.range("owners/1")).items] == [b"one"]


@trio_test
async def test_a_mod_revision_that_is_no_more_stops_all_of_a_transaction(
    rig: LeasesRig, clock: MockClock | None
) -> None:
    async with rig.client() as leases:
        made = await leases.txn([], [Put("a", b"1"), Put("b", b"1")])
        replaced = await leases.txn(
            [Compare("a", made.revision), Compare("b", made.revision)], [Put("a", b"2"), Delete("b")]
        )
        assert replaced.succeeded
        stale = await leases.txn(
            [Compare("b", 0), Compare("a", made.revision)], [Put("a", b"3"), Put("c", b"3")]
        )
        assert not stale.succeeded
        snapshot = await leases.range("")
        assert snapshot.items == (KeyValue("a", b"2", replaced.revision, made.revision, 0),)


@trio_test
async def test_deleting_what_is_not_there_is_no_error(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as leases:
        assert (await leases.txn([], [Delete("nothing")])).succeeded
        assert (await leases.txn([Compare("nothing", 0)], [])).succeeded


@trio_test
async def test_a_transaction_has_limits(rig: LeasesRig, clock: MockClock | None) -> None:
    most = [Put(f"k/{number}", b"") for number in range(TXN_OPERATIONS_LIMIT)]
    conditions = [Compare(put.key, 0) for put in most]
    async with rig.client() as leases:
        assert (await leases.txn(conditions, most)).succeeded
        with pytest.raises(UsageError, match="at most 128"):
            await leases.txn([], [*most, Delete("one more")])
        with pytest.raises(UsageError, match="at most 128"):
            await leases.txn([*conditions, Compare("one more", 0)], [])
        with pytest.raises(UsageError, match="only once"):
            await leases.txn([], [Put("twice", b""), Delete("twice")])


@trio_test
async def test_what_makes_no_sense_is_refused(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as leases:
        with pytest.raises(UsageError, match="ttl_s"):
            await leases.grant(0)
        with pytest.raises(UsageError, match="from_revision"):
            async with leases.watch("", 0):
                pass


@trio_test
async def test_a_revoked_lease_takes_its_keys_along(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as leases:
        lease = await leases.grant(600)
        await leases.txn([], [Put("mine", b"", lease), Put("unbound", b""), Put("was mine", b"", lease)])
        await leases.txn([], [Put("was mine", b"")])
        assert await leases.keep_alive(lease)
        await leases.revoke(lease)
        await leases.revoke(lease)
        assert not await leases.keep_alive(lease)
        assert [item.key for item in (await leases.range("")).items] == ["unbound", "was mine"]


@trio_test
async def test_a_key_can_not_be_bound_to_a_lease_that_is_gone(
    rig: LeasesRig, clock: MockClock | None
) -> None:
    async with rig.client() as leases:
        lease = await leases.grant(600)
        await leases.revoke(lease)
        with pytest.raises(NotFoundError):
            await leases.txn([], [Put("free", b""), Put("bound", b"", lease)])
        assert (await leases.range("")).items == ()
        failed = await leases.txn([Compare("bound", 7)], [Put("bound", b"", lease)])
        assert not failed.succeeded


@trio_test
async def test_a_lease_that_nobody_renews_ends_with_its_keys(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as leases:
        before = await leases.range("")
        lease = await put_bound_to_a_short_lease(leases, "shards/short")
        async with leases.watch("shards/short", before.revision + 1) as batches:
            put, deleted = await take_events(batches, 2)
        assert put.item is not None and put.item.lease == lease
        assert deleted == KeyEvent("shards/short", None, deleted.revision)
        assert (await leases.range("")).items == ()
        assert not await leases.keep_alive(lease)


@trio_test
async def test_a_watch_sees_what_happens_in_order(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as writer, rig.client() as reader:
        first = await writer.txn([], [Put("w/a", b"1"), Put("x", b"")])
        async with reader.watch("w/", first.revision) as batches:
            assert await take_events(batches, 1) == [
                KeyEvent("w/a", KeyValue("w/a", b"1", first.revision, first.revision, 0), first.revision)
            ]
            second = await writer.txn([], [Put("w/b", b"2")])
            await writer.txn([], [Put("x", b"not of this prefix")])
            third = await writer.txn([], [Delete("w/a")])
            assert await take_events(batches, 2) == [
                KeyEvent("w/b", KeyValue("w/b", b"2", second.revision, second.revision, 0), second.revision),
                KeyEvent("w/a", None, third.revision),
            ]


@trio_test
async def test_a_watch_can_be_left_at_any_moment(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as leases:
        written = await leases.txn([], [Put("w/a", b""), Put("w/b", b"")])
        async with leases.watch("w/", written.revision) as batches:
            await take_events(batches, 2)
            with trio.move_on_after(0.2) as waiting:
                await anext(batches)
        assert waiting.cancelled_caught
        async with leases.watch("w/", written.revision) as batches:
            await take_events(batches, 1)
        async with leases.watch("w/", written.revision):
            pass
        assert len((await leases.range("w/")).items) == 2


@trio_test
async def test_one_candidate_leads_until_it_resigns(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as one, rig.client() as other:
        first = one.election("leader", await one.grant(600), b"one")
        second = other.election("leader", await other.grant(600), b"other")
        assert await second.leader() is None
        assert await first.campaign()
        assert await first.campaign()
        assert not await second.campaign()
        await second.resign()
        seen = await second.leader()
        assert seen is not None and seen.value == b"one"
        await first.resign()
        assert await second.campaign()
        assert not await first.campaign()


@trio_test
async def test_the_end_of_the_leaders_lease_frees_the_lead(rig: LeasesRig, clock: MockClock | None) -> None:
    async with rig.client() as leases:
        lease = await leases.grant(600)
        first = leases.election("leader", lease, b"one")
        second = leases.election("leader", await leases.grant(600), b"other")
        await leases.txn([], [Put("leaders-log", b"only shares the beginning of the key")])
        assert await first.campaign()
        await leases.revoke(lease)
        assert not await first.campaign()
        assert await second.leader() is None
        assert await second.campaign()


@trio_test
async def test_many_candidates_at_once_give_one_leader(rig: LeasesRig, clock: MockClock | None) -> None:
    leaders: list[int] = []
    async with rig.client() as leases:

        async def run_for_it(number: int) -> None:
            election = leases.election("leader", await leases.grant(600), str(number).encode())
            if await election.campaign():
                leaders.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(run_for_it, number)
        [item] = (await leases.range("leader")).items
        assert leaders == [int(item.value)]


@trio_test
async def test_a_server_that_returns_is_used_again(own_rig: LeasesRig, clock: MockClock | None) -> None:
    async with own_rig.client() as leases:
        lease = await leases.grant(600)
        await leases.txn([], [Put("kept", b"1", lease)])
        before = (await leases.range("")).items
        await own_rig.stop()
        # The read comes first, so that it meets the connection that died with the server, if one did.
        for call in (
            lambda: leases.range(""),
            lambda: leases.txn([], [Put("lost", b"")]),
            lambda: leases.grant(5),
            lambda: leases.keep_alive(lease),
            lambda: leases.revoke(lease),
        ):
            with pytest.raises(UnavailableError) as failure:
                await call()
            # Refused, so certainly not applied.
            assert not failure.value.maybe_applied
            assert failure.value.__cause__ is not None
        await own_rig.start()
        assert (await leases.range("")).items == before
        assert await leases.keep_alive(lease)


@trio_test
async def test_a_watch_goes_on_where_it_was_after_a_restart(
    own_rig: LeasesRig, clock: MockClock | None
) -> None:
    async with own_rig.client() as writer, own_rig.client() as reader:
        first = await writer.txn([], [Put("w/a", b"")])
        async with reader.watch("w/", first.revision) as batches:
            [seen] = await take_events(batches, 1)
            assert seen.revision == first.revision
            missed = await writer.txn([], [Put("w/b", b"")])
            await own_rig.stop()
            await own_rig.start()
            after = await writer.txn([], [Put("w/c", b"")])
            events = await take_events(batches, 2)
            assert [event.revision for event in events] == [missed.revision, after.revision]


@trio_test
async def test_a_watch_says_so_when_its_place_was_compacted_away(
    own_rig: LeasesRig, clock: MockClock | None
) -> None:
    async with own_rig.client() as leases:
        first = await leases.txn([], [Put("w/a", b"1")])
        await leases.txn([], [Put("w/a", b"2")])
        last = await leases.txn([], [Put("w/a", b"3")])
        await own_rig.compact(last.revision)
        async with leases.watch("w/", first.revision) as batches:
            with trio.fail_after(PATIENCE_S):
                assert await anext(batches) is None
            [kept] = await take_events(batches, 1)
            assert kept.revision == last.revision
            later = await leases.txn([], [Put("w/b", b"")])
            assert [event.revision for event in await take_events(batches, 1)] == [later.revision]


@trio_test
async def test_a_watch_says_so_when_the_data_was_lost(own_rig: LeasesRig, clock: MockClock | None) -> None:
    async with own_rig.client() as leases:
        for number in range(20):
            last = await leases.txn([], [Put("w/a", str(number).encode())])
        async with leases.watch("w/", last.revision) as batches:
            await take_events(batches, 1)
            await own_rig.lose_data()
            with trio.fail_after(PATIENCE_S):
                assert await anext(batches) is None
            assert (await leases.range("")).items == ()
            fresh = await leases.txn([], [Put("w/b", b"")])
            assert fresh.revision < last.revision
            assert [event.revision for event in await take_events(batches, 1)] == [fresh.revision]
