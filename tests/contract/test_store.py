"""The contract of `Store`, on the twin in memory and on a real PostgreSQL: who may store a watermark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.clock import DatabaseClock
from shardwheel.compose.postgres import PostgresServer
from shardwheel.errors import UnavailableError
from shardwheel.ports import Identity, PartitionState, Store, Watermark
from tests.contract.store_rig import GENERATION, PATIENCE_S, MemoryRig, StoreRig, own, postgres_rig
from tests.servers import fresh_database

BOTH = ["memory", pytest.param("postgres", marks=pytest.mark.servers)]


@pytest.fixture(scope="module")
def module_database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    with fresh_database(postgres_server, migrated_template) as dsn:
        yield dsn


@pytest.fixture(params=BOTH)
def rig(request: pytest.FixtureRequest) -> Iterator[StoreRig]:
    """The real half shares one server: nothing here may harm it."""
    if request.param == "memory":
        yield MemoryRig()
        return
    server = request.getfixturevalue("postgres_server")
    with postgres_rig(server, request.getfixturevalue("module_database")) as real:
        yield real


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> MockClock | None:
    """trio_test runs under the clock it is given: one that jumps for the twin, the real one otherwise."""
    in_memory = "memory" in request.node.callspec.params.values()
    return MockClock(autojump_threshold=0) if in_memory else None


async def read_one(store: Store, partition: int) -> PartitionState:
    (state,) = await store.partitions([partition])
    return state


@trio_test
async def test_the_clock_goes_on_and_the_identity_stays(rig: StoreRig, clock: MockClock | None) -> None:
    async with rig.client() as store:
        first_ms, first = await store.now_ms(), await store.identity()
        await trio.sleep(0.01)
        assert await store.now_ms() > first_ms
        assert await store.identity() == first
        assert first.timeline >= 1
        assert first.system_identifier > 0


@trio_test
async def test_a_process_knows_the_time_without_asking_and_is_never_ahead(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        database_clock = DatabaseClock(trio.current_time)
        await database_clock.run_once(store)
        for _ in range(3):
            reached_ms = database_clock.reached_ms()
            assert reached_ms <= await store.now_ms()
        assert abs(database_clock.now_ms() - await store.now_ms()) < PATIENCE_S * 1000


@trio_test
async def test_there_are_256_partitions_and_nobody_owns_them(rig: StoreRig, clock: MockClock | None) -> None:
    async with rig.client() as store:
        states = await store.partitions([255, 7, 0, 7, 256])
        assert states == [PartitionState(p, 0, "", 0, 0, 0, 0, "", Identity(0, 0)) for p in (0, 7, 255)]
        assert len(await store.partitions(range(300))) == 256


@trio_test
async def test_a_take_bumps_the_epoch_that_was_seen_and_no_other(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        taken = await store.take_partitions({3: 0, 1: 0}, "shard-a")
        assert [(state.partition, state.epoch, state.owner) for state in taken] == [
            (1, 1, "shard-a"),
            (3, 1, "shard-a"),
        ]
        # Of partition 3 shard-b saw an old epoch, and of 999 a ghost.
        taken = await store.take_partitions({1: 1, 3: 0, 999: 0}, "shard-b")
        assert [(state.partition, state.epoch, state.owner) for state in taken] == [(1, 2, "shard-b")]
        assert (await read_one(store, 3)).owner == "shard-a"
        assert await store.take_partitions({}, "shard-b") == []


@trio_test
async def test_of_many_takers_at_once_one_gets_each_epoch(rig: StoreRig, clock: MockClock | None) -> None:
    """They ask in different orders: nobody may wait for each other in a circle either."""
    partitions = [5, 6, 7, 8]
    won: list[tuple[int, int]] = []

    async def take(store: Store, name: str, order: list[int]) -> None:
        for _ in range(5):
            seen = {state.partition: state.epoch for state in await store.partitions(partitions)}
            taken = await store.take_partitions({partition: seen[partition] for partition in order}, name)
            won.extend((state.partition, state.epoch) for state in taken)

    async with rig.client() as store:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                order = partitions if number % 2 else partitions[::-1]
                nursery.start_soon(take, store, f"shard-{number}", order)
        last = {state.partition: state.epoch for state in await store.partitions(partitions)}
    assert sorted(won) == [(p, epoch) for p in partitions for epoch in range(1, last[p] + 1)]


@trio_test
async def test_a_watermark_is_stored_under_the_present_epoch_only(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        identity = await store.identity()
        mine = await own(store, [1, 2, 3], "shard-a")
        await store.take_partitions({2: mine[2].epoch}, "shard-b")
        marks = [Watermark(p, mine[p].epoch, 1_000 + p, 50 + p) for p in (3, 2, 1)]
        assert await store.store_watermarks([*marks, Watermark(999, 1, 1, 1)], identity) == {2, 999}
        stored = [(s.fired_through_ms, s.horizon_xid) for s in await store.partitions([1, 2, 3])]
        assert stored == [(1_001, 51), (0, 0), (1_003, 53)]
        assert await store.store_watermarks([], identity) == set()


@trio_test
async def test_the_next_owner_gets_the_watermark_to_go_on_from(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        mine = await own(store, [4], "shard-a")
        # An xid has 64 bits, and a time more than 32.
        mark = Watermark(4, mine[4].epoch, 1_790_000_000_123, 2**40 + 1)
        assert await store.store_watermarks([mark], await store.identity()) == set()
        (state,) = await store.take_partitions({4: mine[4].epoch}, "shard-b")
        assert (state.fired_through_ms, state.horizon_xid) == (1_790_000_000_123, 2**40 + 1)
        assert (state.kafka_generation, state.identity) == (GENERATION, await store.identity())


@trio_test
async def test_an_overtaken_store_sets_nothing_back(rig: StoreRig, clock: MockClock | None) -> None:
    async with rig.client() as store:
        identity = await store.identity()
        epoch = (await own(store, [9], "shard-a"))[9].epoch
        assert await store.store_watermarks([Watermark(9, epoch, 500, 80)], identity) == set()
        assert await store.store_watermarks([Watermark(9, epoch, 400, 70)], identity) == set()
        state = await read_one(store, 9)
        assert (state.fired_through_ms, state.horizon_xid) == (500, 80)


@trio_test
async def test_a_watermark_from_another_postgres_is_refused(rig: StoreRig, clock: MockClock | None) -> None:
    async with rig.client() as store:
        here = await store.identity()
        epoch = (await own(store, [9], "shard-a"))[9].epoch
        mark = Watermark(9, epoch, 500, 80)
        assert await store.store_watermarks([mark], here._replace(timeline=here.timeline + 1)) == {9}
        assert await store.store_watermarks([mark], here._replace(system_identifier=1)) == {9}
        # The row itself is of another system: not even the right answer helps.
        await rig.set_system_identifier(9, 1)
        assert await store.store_watermarks([mark], here) == {9}
        assert (await read_one(store, 9)).fired_through_ms == 0


@trio_test
async def test_a_reset_goes_back_to_the_floor_and_fences_what_is_under_way(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        here = await store.identity()
        before = (await own(store, [2], "shard-a"))[2]
        await store.store_watermarks([Watermark(2, before.epoch, 9_000, 90)], here)
        await rig.set_floor(2, 7_000, 70)
        (reset,) = await store.reset_to_floor(
            {2: before.epoch}, "shard-a", kafka_generation="kafka-2", identity=here
        )
        assert reset == PartitionState(2, before.epoch + 1, "shard-a", 7_000, 70, 7_000, 70, "kafka-2", here)
        # The same owner's store from before the loss arrives late.
        assert await store.store_watermarks([Watermark(2, before.epoch, 9_100, 91)], here) == {2}
        assert await read_one(store, 2) == reset


@trio_test
async def test_a_reset_is_refused_under_a_wrong_epoch_or_identity(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        here = await store.identity()
        mine = await own(store, [2, 3], "shard-a")
        seen = {2: mine[2].epoch, 3: mine[3].epoch}
        elsewhere = here._replace(timeline=here.timeline + 1)
        assert await store.reset_to_floor(seen, "b", kafka_generation="k", identity=elsewhere) == []
        assert await store.reset_to_floor({2: 0}, "b", kafka_generation="k", identity=here) == []
        # Restored from another system: its xids mean nothing here.
        await rig.set_system_identifier(3, 1)
        done = await store.reset_to_floor(seen, "b", kafka_generation="k", identity=here)
        assert [state.partition for state in done] == [2]


@trio_test
async def test_a_lost_answer_may_have_been_applied_and_was(rig: StoreRig, clock: MockClock | None) -> None:
    async with rig.lossy_client() as store:
        epoch = (await read_one(store, 6)).epoch
        rig.lose_next_answer()
        with pytest.raises(UnavailableError) as caught:
            await store.take_partitions({6: epoch}, "shard-a")
        assert caught.value.maybe_applied
        # How the taker finds out: the row names it, with the epoch after the one it saw.
        state = await read_one(store, 6)
        assert (state.epoch, state.owner) == (epoch + 1, "shard-a")


@trio_test
async def test_a_lost_request_may_have_been_applied_and_was_not(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.lossy_client() as store:
        before = await read_one(store, 6)
        rig.lose_next_request()
        with pytest.raises(UnavailableError) as caught:
            await store.take_partitions({6: before.epoch}, "shard-a")
        assert caught.value.maybe_applied
        assert await read_one(store, 6) == before


@trio_test
async def test_connections_that_break_while_idle_are_replaced_in_silence(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        before = await read_one(store, 6)
        await rig.break_links()
        (taken,) = await store.take_partitions({6: before.epoch}, "shard-a")
        assert taken.epoch == before.epoch + 1


@trio_test
async def test_a_connection_that_breaks_before_the_commit_applies_nothing_twice(
    rig: StoreRig, clock: MockClock | None
) -> None:
    """The take waits for a row's lock when its connection ends. It is tried again, or given up unapplied."""
    failures: list[UnavailableError] = []

    async def take(store: Store, epoch: int) -> None:
        try:
            await store.take_partitions({6: epoch}, "shard-a")
        except UnavailableError as error:
            failures.append(error)

    async with rig.client() as store:
        before = await read_one(store, 6)
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery, rig.holding(6):
                nursery.start_soon(take, store, before.epoch)
                await rig.until_somebody_waits()
                await rig.break_links()
        state = await read_one(store, 6)
    assert [error.maybe_applied for error in failures] in ([], [False])
    assert state.epoch == before.epoch + (0 if failures else 1)
