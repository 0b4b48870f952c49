"""The contract of `Store` when its server is killed, frozen, or replaced by a standby that knows less.

The real half has a PostgreSQL of its own, which the tests share one after another.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.compose.postgres import PostgresServer
from shardwheel.errors import UnavailableError
from shardwheel.ports import Identity, Store, Watermark
from shardwheel.store.migrate import migrate
from tests.contract.store_rig import PATIENCE_S, MemoryRig, StoreRig, eventually, own, postgres_rig
from tests.servers import started

BOTH = ["memory", pytest.param("postgres", marks=pytest.mark.servers)]


@pytest.fixture(scope="module")
def fragile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with started(PostgresServer(tmp_path_factory.mktemp("fragile"), durable=False)) as server:
        with psycopg.connect(server.dsn) as connection:
            migrate(connection)
        yield server


@pytest.fixture(params=BOTH)
def rig(request: pytest.FixtureRequest) -> Iterator[StoreRig]:
    if request.param == "memory":
        yield MemoryRig()
        return
    server: PostgresServer = request.getfixturevalue("fragile_server")
    # A test that failed half-way may have left it in any state; the next one is not to suffer.
    server.kill()
    server.start()
    with postgres_rig(server, server.dsn) as real:
        yield real


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> MockClock | None:
    """trio_test runs under the clock it is given: one that jumps for the twin, the real one otherwise."""
    in_memory = "memory" in request.node.callspec.params.values()
    return MockClock(autojump_threshold=0) if in_memory else None


class Writer:
    """Stores ever later watermarks of one partition until it fails; knows what was acknowledged."""

    def __init__(self, store: Store, partition: int, epoch: int, identity: Identity) -> None:
        self.partition = partition
        self.acknowledged_ms = 0
        self.failure: UnavailableError | None = None
        self.wrote_some = trio.Event()
        self._store = store
        self._epoch = epoch
        self._identity = identity

    async def write(self, most_ms: int) -> None:
        try:
            while self.acknowledged_ms < most_ms:
                mark = Watermark(self.partition, self._epoch, self.acknowledged_ms + 1, 7)
                assert await self._store.store_watermarks([mark], self._identity) == set()
                self.acknowledged_ms += 1
                if self.acknowledged_ms >= 10:
                    self.wrote_some.set()
                # The twin answers in no time at all: let some pass.
                await trio.sleep(0.001)
        except UnavailableError as error:
            self.failure = error


@trio_test
async def test_killed_under_load_it_loses_nothing_acknowledged_and_says_what_is_open(
    rig: StoreRig, clock: MockClock | None
) -> None:
    async with rig.client() as store:
        identity = await store.identity()
        mine = await own(store, [0, 1, 2, 3], "shard-a")
        writers = [Writer(store, p, state.epoch, identity) for p, state in mine.items()]
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                for writer in writers:
                    nursery.start_soon(writer.write, 1_000_000)
                for writer in writers:
                    await writer.wrote_some.wait()
                await rig.kill()
        with pytest.raises(UnavailableError) as away:
            await store.now_ms()
        assert not away.value.maybe_applied

        await rig.start()
        states = await store.partitions([0, 1, 2, 3])
        for writer, state in zip(writers, states, strict=True):
            assert writer.failure is not None
            surplus_ms = state.fired_through_ms - writer.acknowledged_ms
            assert surplus_ms in ((0, 1) if writer.failure.maybe_applied else (0,))
            await writer.write(writer.acknowledged_ms + 5)
        again = [state.fired_through_ms for state in await store.partitions([0, 1, 2, 3])]
        assert again == [writer.acknowledged_ms for writer in writers]


@trio_test
async def test_frozen_it_keeps_nobody_beyond_the_limit_and_goes_on_when_thawed(
    rig: StoreRig, clock: MockClock | None
) -> None:
    ended: list[UnavailableError] = []

    async def ask(store: Store) -> None:
        with pytest.raises(UnavailableError) as caught:
            await store.take_partitions({5: 0}, "shard-a")
        ended.append(caught.value)

    async def works(store: Store) -> bool:
        try:
            await store.now_ms()
        except UnavailableError:
            return False
        return True

    async with rig.client(limit_s=1.0) as hasty:
        await eventually(lambda: works(hasty))
        await rig.freeze()
        # More callers than connections, on open ones and on new ones: the limit counts for each.
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(ask, hasty)
        assert [error.maybe_applied for error in ended] == [False] * 6
        await rig.thaw()
        await eventually(lambda: works(hasty))
    async with rig.client() as store:
        (state,) = await store.partitions([5])
        assert (state.epoch, state.owner) == (0, "")


@trio_test
async def test_a_fail_over_that_lost_a_take_does_not_let_two_owners_in(
    rig: StoreRig, clock: MockClock | None
) -> None:
    """A takes epoch 1, which the standby never hears of; B takes epoch 1 anew. Only B may store."""
    async with rig.client() as store:
        before = await store.identity()
        await rig.backup()
        lost = await own(store, [8], "shard-a")
        assert await store.store_watermarks([Watermark(8, lost[8].epoch, 100, 7)], before) == set()
        await rig.fail_over()

        after = await store.identity()
        assert after == before._replace(timeline=before.timeline + 1)
        (state,) = await store.partitions([8])
        assert (state.epoch, state.fired_through_ms) == (0, 0)
        mine = await own(store, [8], "shard-b")
        assert mine[8].epoch == lost[8].epoch
        assert await store.store_watermarks([Watermark(8, lost[8].epoch, 200, 7)], before) == {8}
        assert await store.store_watermarks([Watermark(8, mine[8].epoch, 50, 7)], after) == set()
        (state,) = await store.partitions([8])
        assert (state.owner, state.fired_through_ms) == ("shard-b", 50)


@trio_test
async def test_after_a_fail_over_nothing_is_stored_before_the_reset(
    rig: StoreRig, clock: MockClock | None
) -> None:
    """The epoch survived, yet claims may be gone: whoever goes on from T would lose their fires."""
    async with rig.client() as store:
        before = await store.identity()
        mine = await own(store, [8], "shard-a")
        await rig.backup()
        await rig.fail_over()
        mark = Watermark(8, mine[8].epoch, 100, 7)
        assert await store.store_watermarks([mark], before) == {8}
        assert await store.store_watermarks([mark], await store.identity()) == {8}
        (taken,) = await store.take_partitions({8: mine[8].epoch}, "shard-b")
        assert taken.identity == before
        mark = mark._replace(epoch=taken.epoch)
        assert await store.store_watermarks([mark], await store.identity()) == {8}
